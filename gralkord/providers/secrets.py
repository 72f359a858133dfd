"""Keys of providers: from the settings, the environment, files, or the service manager."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gralkord.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gralkord.config import Models
    from gralkord.providers.specs import ModelSpec, Role

CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"
# The setting of each role; roles without one of their own share that of the language model.
_SETTINGS: Final[Mapping[Role, str]] = {
    "llm": "api_key",
    "llm_small": "api_key",
    "embedder": "embedder_api_key",
    "reranker": "reranker_api_key",
    "vision": "vision_api_key",
}


class Key(NamedTuple):
    """A key, and where a wrong one is to be corrected; no key means that none is sent."""

    text: str | None
    source: str


def find_key(
    spec: ModelSpec,
    models: Models,
    environ: Mapping[str, str],
    *,
    shares: bool,
    own: bool = True,
) -> Key:
    """Return the key for *spec*: the setting of its role, else what its provider's variable holds.

    Args:
        spec: The model.
        models: The settings.
        environ: Environment variables.
        shares: Whether it is at the same address as the language model, whose key it may be shown.
        own: Whether the setting of its role is meant for it.

    Raises:
        ConfigError: A key that is missing, blank or unreadable; it names the setting or variable
            and the role.
    """
    setting = _SETTINGS[spec.role]
    names = dict.fromkeys([setting] if own and (setting != "api_key" or shares) else [])
    if shares:
        names["api_key"] = None
    for name in names:
        if (key := _of_setting(name, models)) is not None:
            return _checked(key, spec)
    if not spec.provider.key_variables:
        return Key(None, f"models.{setting}")
    for key in (_of_environ(spec, environ), _of_credentials(spec, environ)):
        if key is not None:
            return _checked(key, spec)
    variable = spec.provider.key_variable
    raise ConfigError(
        f"{spec.source} is {spec.written!r}, but {variable}, which holds its key, is not set",
        field=variable,
    )


def has_key(variables: tuple[str, ...], environ: Mapping[str, str]) -> bool:
    """Return whether one of the *variables*, or the file that it names, is given."""
    return any(
        environ.get(each, "").strip() or environ.get(f"{each}_FILE", "").strip()
        for each in variables
    )


def credential_file(name: str, environ: Mapping[str, str]) -> Path | None:
    """Return the file that holds a secret of the service manager's, ``None`` if it gives none.

    Of a directory of credentials systemd puts the credential's own name before those of the files.
    """
    directory = environ.get(CREDENTIALS)
    for file in (name, f"gralkord_{name}"):
        if directory and (path := Path(directory, file)).is_file():
            return path
    return None


def _of_setting(name: str, models: Models) -> Key | None:
    value, file = getattr(models, name), getattr(models, f"{name}_file")
    if value is not None and file is not None:
        raise ConfigError(f"give models.{name} or models.{name}_file, not both")
    if value is not None:
        return Key(value.get_secret_value(), f"models.{name}")
    return _of_file(file, f"models.{name}_file") if file is not None else None


def _of_environ(spec: ModelSpec, environ: Mapping[str, str]) -> Key | None:
    blank = None
    for variable in spec.provider.key_variables:
        if environ.get(variable, "").strip():
            return Key(environ[variable], variable)
        if file := environ.get(f"{variable}_FILE", "").strip():
            return _of_file(Path(file), f"{variable}_FILE")
        if variable in environ:
            blank = blank or Key("", variable)
    return blank


def _of_credentials(spec: ModelSpec, environ: Mapping[str, str]) -> Key | None:
    name = f"{spec.provider.name}-api-key"
    file = credential_file(name, environ)
    return _of_file(file, f"the credential {name}") if file else None


def _of_file(path: Path, source: str) -> Key:
    place = f"{source} {path}" if source.endswith(("_file", "_FILE")) else source
    try:
        return Key(path.read_text("utf-8-sig"), place)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{place} cannot be read: {error}", field=source) from error


def _checked(key: Key, spec: ModelSpec) -> Key:
    text = (key.text or "").strip()
    if not text:
        raise ConfigError(
            f"{spec.source} is {spec.written!r}, but {key.source}, which holds its key, is blank",
            field=key.source,
        )
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ConfigError(f"{key.source}, the key for {spec.source}, holds more than a key")
    return Key(None if text == "none" else text, key.source)
