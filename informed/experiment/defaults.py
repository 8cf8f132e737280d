"""Turn a dataclass of settings into a ConfigDict, as a start for configuration files.

Configuration files (`configs/`) call `defaults`, and so does `named` for settings of
attacks. A file then states only what deviates from the defaults, and every other field
can still be set on the command line. Nothing is read or written.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from ml_collections import config_dict


def defaults(settings: Any) -> config_dict.ConfigDict:
    """Return all fields of a dataclass by name, nested ones too.

    Args:
      settings: an instance, or a class; fields without a default are left open.
    Returns: a ConfigDict that takes no other fields; optional fields that are None keep
      their type, so that the command line can set them.
    """
    values = config_dict.ConfigDict()
    cls = settings if isinstance(settings, type) else type(settings)
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        value = getattr(settings, field.name, None)
        if isinstance(settings, type) and callable(field.default_factory):
            value = field.default_factory()
        if isinstance(value, Mapping):  # name -> a settings object such as NamedAttack
            fields = {name: one.defaults() for name, one in value.items()}
            values[field.name] = config_dict.ConfigDict(fields)
        elif dataclasses.is_dataclass(value):
            values[field.name] = defaults(value)
        elif value is None:
            values[field.name] = config_dict.placeholder(_type(hints[field.name]))
        else:
            values[field.name] = value
    return values.lock()


def _type(hint: Any) -> type:
    """Return the type of an optional field when it isn't None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(
            option for option in typing.get_args(hint) if option is not type(None)
        )
    return typing.get_origin(hint) or hint
