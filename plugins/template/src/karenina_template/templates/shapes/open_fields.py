"""Removes constraints that are not shown to a judge from types, so that any value can be compared.

A constraint that allows only a single value, such as `ge=40, le=40` or `Literal["BCL2"]`, gives the ground truth away.
So does a literal in a union with other types (`Literal["BCL2"] | int`), and a pattern or `multiple_of` may reveal it.
If a judge does not see such a constraint, it must not apply to the value either. Otherwise, a wrong value would be
rejected instead of counting as a wrong answer.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from math import ceil, floor
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, GroupedMetadata, Gt, Le, Lt, MultipleOf
from pydantic import BaseModel, Field, PydanticUserError, StringConstraints, create_model
from pydantic.fields import FieldInfo
from pydantic_core import SchemaError

from karenina_template.templates.errors import TemplateError
from karenina_template.templates.primitives.values import plain

SHOW: Final = "show_constraints"
"""The key in `json_schema_extra` that authors set to show a field's constraints to the judge."""

_BOUNDS: Final[Mapping[type, str]] = {Ge: "ge", Le: "le", Gt: "gt", Lt: "lt", MultipleOf: "multiple_of"}


def leaves_one_value(bounds: Iterable[Any], step: Any) -> bool:
    """Return whether `bounds` (minimum, maximum, exclusive minimum, exclusive maximum, each of which may be None) allow
    at most one value or, unless `step` is None, one multiple of it, for example of 1 for whole numbers. Returns False
    if they cannot be compared.
    """
    low, high, above, below = bounds
    lows = [bound for bound in (low, above) if bound is not None]
    highs = [bound for bound in (high, below) if bound is not None]
    if not lows or not highs:
        return False
    try:
        if max(lows) >= min(highs):
            return True
        if step is None:
            return False
        size = Fraction(step)
        firsts = [ceil(Fraction(bound) / size) for bound in (low,) if bound is not None]
        firsts += [floor(Fraction(bound) / size) + 1 for bound in (above,) if bound is not None]
        lasts = [floor(Fraction(bound) / size) for bound in (high,) if bound is not None]
        lasts += [ceil(Fraction(bound) / size) - 1 for bound in (below,) if bound is not None]
    except (TypeError, ValueError, ArithmeticError):
        return False
    return max(firsts) >= min(lasts)


def is_one_option(values: Iterable[object]) -> bool:
    """Return whether `values` contains only one option, compared as strings and ignoring None."""
    return len({str(value) for value in values if value is not None}) == 1


def create_class(
    name: str, base: type[BaseModel], fields: dict[str, Any], module: str = __name__, doc: str | None = None
) -> Any:
    """Return a subclass of `base` with the given fields. Raises `TemplateError` if it cannot be built."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # fields may have names of pydantic's own methods
            return create_model(name, __base__=base, __module__=module, __doc__=doc, **fields)
    except (PydanticUserError, SchemaError, AttributeError, NameError, TypeError, ValueError) as error:
        raise TemplateError(f"the class {name} cannot be created: {error}") from error


class Opener:
    """Opens types by removing the constraints that are not shown to a judge.

    Types without such constraints, types that contain themselves, and types from other libraries are not changed.
    """

    def __init__(self) -> None:
        self._opened: dict[tuple[type[BaseModel], frozenset[str]], type[BaseModel]] = {}
        self._open_now: set[Any] = set()

    def changed(self, fields: Mapping[str, FieldInfo]) -> list[str]:
        """Return the names of the fields whose types have constraints that are not shown to a judge, so that opening
        them changes their types.
        """
        return [
            name
            for name, info in fields.items()
            if self.annotated(info.annotation, info.metadata, info.json_schema_extra) is not None
        ]

    def open(self, annotation: Any, *, shown: bool = False, is_option: bool = False) -> Any:
        """Return the type without the constraints that are not shown to a judge, so that it accepts what a judge may
        write: a literal or enum with a single option, for example, also accepts any other value of its type. With
        `shown`, constraints that the author chose to show are kept, and only models and enums within the type are
        changed. Set `is_option` for a type in a union, because the literals of a union are opened together.
        """
        origin, parts = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            opened = self.annotated(parts[0], parts[1:], shown=shown, is_option=is_option)
            return annotation if opened is None else opened
        if origin is Literal:
            return annotation if shown or is_option or not is_one_option(map(plain, parts)) else _or_any(annotation)
        if origin in (Union, UnionType):
            return self._union(annotation, shown=shown, is_option=is_option)
        if hasattr(annotation, "__value__"):
            return self._alias(annotation)
        if isinstance(annotation, type) and origin is None:
            if issubclass(annotation, Enum):
                return _or_any(annotation) if is_one_option(map(plain, annotation)) else annotation
            return self._model(annotation) if issubclass(annotation, BaseModel) else annotation
        opened_parts = tuple(self.open(part, shown=shown) for part in parts)
        if origin is None or all(part is other for part, other in zip(parts, opened_parts, strict=True)):
            return annotation
        return origin[opened_parts]

    def annotated(
        self,
        base: Any,
        metadata: Sequence[Any],
        extra: object = None,
        *,
        shown: bool = False,
        is_option: bool = False,
    ) -> Any | None:
        """Return `base` without the constraints in `metadata` and inside `base` that are not shown to a judge, or None
        if nothing changes. The author can choose to show them with `extra`, the field's `json_schema_extra`. For
        `shown` and `is_option`, see `open`.
        """
        extras = [extra, *(info.json_schema_extra for info in metadata if isinstance(info, FieldInfo))]
        shown = shown or any(isinstance(item, Mapping) and item.get(SHOW) is True for item in extras)
        flat = list(_flat(metadata))
        constraints = flat if shown else list(map(_without_pattern, flat))
        if not shown:
            hidden = tuple(_BOUNDS) if _is_single(base, constraints) else (MultipleOf,)
            constraints = [item for item in constraints if type(item) not in hidden]
        opened = self.open(base, shown=shown, is_option=is_option)
        if opened is base and constraints == flat:
            return None
        tags = [
            info.discriminator for info in metadata if isinstance(info, FieldInfo) and info.discriminator is not None
        ]
        constraints += [Field(discriminator=tag) for tag in tags]
        for constraint in constraints:
            opened = Annotated[opened, constraint]
        return opened

    def _union(self, annotation: Any, *, shown: bool, is_option: bool) -> Any:
        """Return a union whose types lose the constraints that are not shown to a judge. If all its literals together
        leave one option, the union also accepts any other value of their types. Otherwise, if none of its types
        changes, it is returned unchanged.
        """
        parts = get_args(annotation)
        several = sum(part is not type(None) for part in parts) > 1
        opens_all = several and not shown and not is_option and is_one_option(_options(annotation))
        models = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
        tags = _tags(models)
        opened = [
            self._model(part, tags) if part in models else self.open(part, shown=shown, is_option=is_option or several)
            for part in parts
        ]
        if any(part is not other for part, other in zip(parts, opened, strict=True)):
            annotation = Union[tuple(opened)]  # noqa: UP007 - made from a tuple
        # The union itself comes first: a number that is written as text is still read as a number if it has numbers.
        return _or_any(Annotated[annotation, Field(union_mode="smart")]) if opens_all else annotation

    def _alias(self, alias: Any) -> Any:
        """Return the type of an alias created by a `type` statement, without the constraints that are not shown to a
        judge, or the alias itself if nothing changes or it contains itself.
        """
        if alias in self._open_now:
            return alias
        self._open_now.add(alias)
        opened = self.open(alias.__value__)
        self._open_now.discard(alias)
        return alias if opened is alias.__value__ else opened

    def _model(self, cls: type[BaseModel], tags: frozenset[str] = frozenset()) -> type[BaseModel]:
        """Return a subclass of a model in which the fields except `tags` lose the constraints that are not shown to a
        judge, or the model itself if none of them changes. Inside itself, a model is returned unchanged.
        """
        if cls in self._open_now:
            return cls
        earlier = self._opened.get((cls, tags))
        if earlier is not None:
            return earlier
        self._open_now.add(cls)
        fields: dict[str, Any] = {}
        for name, info in cls.model_fields.items():
            opened = None if name in tags else self.annotated(info.annotation, info.metadata, info.json_schema_extra)
            if opened is not None:
                fields[name] = (opened, _unconstrained(info))
        self._open_now.discard(cls)
        model = create_class(cls.__name__, cls, fields, cls.__module__, cls.__doc__) if fields else cls
        self._opened[cls, tags] = model
        return model


def _or_any(annotation: Any) -> Any:
    """Return a type that accepts `annotation`, or any value of the same type as its only option."""
    parts = (annotation, *(type(value) for value in _options(annotation)))
    either: Any = Union[parts]  # noqa: UP007 - made from a tuple
    return Annotated[either, Field(union_mode="left_to_right")]


def _options(annotation: Any) -> Iterator[object]:
    """Yield the values that an annotation lists in literals and enums, also within unions. Within a union, aliases and
    enums with a single option are skipped, because they are opened separately.
    """
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        yield from map(plain, parts)
    elif origin in (Union, UnionType):
        for part in parts:
            named = getattr(part, "__value__", part)
            listed = [] if named is not part and get_origin(named) is not Literal else list(_options(named))
            opens_itself = named is not part or (isinstance(part, type) and issubclass(part, Enum))
            yield from () if opens_itself and is_one_option(listed) else listed
    elif origin is Annotated:
        yield from _options(parts[0])
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from map(plain, annotation)


def _tags(models: Iterable[type[BaseModel]]) -> frozenset[str]:
    """Return the discriminator fields, whose literal values distinguish the models in a union."""
    seen: dict[str, set[object]] = {}
    for model in models:
        for name, info in model.model_fields.items():
            if get_origin(info.annotation) is Literal and len(values := get_args(info.annotation)) == 1:
                seen.setdefault(name, set()).add(values[0])
    return frozenset(name for name, values in seen.items() if len(values) > 1)


def _flat(metadata: Iterable[Any]) -> Iterator[Any]:
    """Yield the constraints in a field's metadata one by one, including those in groups and nested `Field`s."""
    for item in metadata:
        if isinstance(item, FieldInfo):
            yield from _flat(item.metadata)
        elif isinstance(item, GroupedMetadata):
            yield from _flat(item)
        else:
            yield item


def _without_pattern(constraint: Any) -> Any:
    if not getattr(constraint, "pattern", None):
        return constraint
    return StringConstraints(**{name: value for name, value in vars(constraint).items() if name != "pattern"})


def _is_single(base: Any, metadata: Iterable[Any]) -> bool:
    """Return whether the bounds in `metadata` allow at most one number."""
    bounds = {_BOUNDS[type(item)]: getattr(item, _BOUNDS[type(item)]) for item in metadata if type(item) in _BOUNDS}
    parts = get_args(base) if get_origin(base) in (Union, UnionType) else (base,)
    step = bounds.get("multiple_of") or (1 if int in parts and float not in parts else None)
    return leaves_one_value(map(bounds.get, ("ge", "le", "gt", "lt")), step)


def _unconstrained(info: FieldInfo) -> Any:
    """Return a `Field` without constraints, but with the description, default, discriminator, `exclude` and `frozen` of
    `info`.
    """
    arguments: dict[str, Any] = {"description": info.description, "exclude": info.exclude, "frozen": info.frozen}
    if info.discriminator is not None:
        arguments["discriminator"] = info.discriminator
    if info.default_factory is not None:
        return Field(default_factory=info.default_factory, **arguments)
    return Field(**arguments) if info.is_required() else Field(default=info.default, **arguments)
