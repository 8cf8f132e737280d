"""An experiment that takes seconds."""

from configs import kkt as config_file
from shadow import checks
from uninformed.kkt.experiment import Uninformed


def small(which="digits"):
    values = config_file.get_config(which).to_dict()
    values["training"] |= {"fitting_steps": 300, "route_steps": 100}
    values["attack"] |= {"steps": 20}
    values["victim"]["widths"] = (16,)
    return checks.build(Uninformed, values)
