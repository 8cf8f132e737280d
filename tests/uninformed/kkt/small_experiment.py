"""An experiment that takes seconds; networks whose ReLU has another derivative."""

from configs import kkt as config_file
from shadow import checks
from uninformed import homogeneous
from uninformed.kkt.experiment import Uninformed


def small(which="digits"):
    values = config_file.get_config(which).to_dict()
    values["training"] |= {"fitting_steps": 300, "route_steps": 100}
    values["attack"] |= {"steps": 20}
    values["victim"]["widths"] = (16,)
    return checks.build(Uninformed, values)


def applied(network, points, relu):
    for layer in network[:-1]:
        points = relu(homogeneous.affine(layer, points))
    return homogeneous.affine(network[-1], points)
