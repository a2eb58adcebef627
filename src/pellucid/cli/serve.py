"""`pellucid serve`: serves the page that shows every number of a model, and LibreTranslate's API."""

import atexit
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from pellucid.cli.files import read_terms_and_memory, require_file
from pellucid.cli.options import (
    DEVICE,
    ENGINE,
    EXPORTED,
    MEMORY,
    PRECISIONS,
    TERMS,
    argument,
    file_option,
    flag,
    option,
)

if TYPE_CHECKING:
    from socket import socket

    from pellucid.api import Model
    from pellucid.serve.directions import Direction
    from pellucid.serve.service import Service
    from pellucid.serve.settings import Languages
    from pellucid.serve.training_text import TrainingText

SERVE_EXAMPLES = """\
  pellucid serve runs/demo/best --open
  pellucid serve en:es=runs/demo/best --port 8080
  pellucid serve runs/demo/best --host 0.0.0.0 --set characters=2000 --set texts=16
  pellucid serve runs/demo/best --exported demo-int8
  pellucid serve en:es=runs/demo/best es:en=runs/back/best
  pellucid serve runs/demo/best --memory memory.tmx --terms glossary.tsv --corrections corrections.jsonl
  curl -d q="The ball is blue." -d source=en -d target=es http://127.0.0.1:5000/translate"""


def run_serve(
    models: Annotated[
        list[str],
        argument(
            "MODEL...",
            "a model directory, or several; en:es=DIR says the languages of one that does not itself",
        ),
    ],
    host: Annotated[
        str,
        option("address to listen on; 0.0.0.0 lets other machines connect"),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        option("port to listen on; 0 takes any free one", min=0, max=65535),
    ] = 5000,
    browse: Annotated[bool, flag("--open", "open the page in a browser")] = False,
    engine: Annotated[str, ENGINE] = "auto",
    precision: Annotated[str, PRECISIONS] = "float32",
    device: Annotated[str, DEVICE] = "cpu",
    exported: Annotated[str | None, EXPORTED] = None,
    terms: Annotated[str | None, TERMS] = None,
    memory: Annotated[str | None, MEMORY] = None,
    corrections: Annotated[
        str | None,
        file_option("append translations that users suggest to this .jsonl, each with its languages and its time"),
    ] = None,
    api_key_file: Annotated[
        str | None,
        file_option("file of API keys, one a line, perhaps with a number of requests a minute"),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        option("another host name that requests may use, for example through a proxy", "NAME"),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        option(
            "site whose pages may send requests, such as https://example.com; * for any",
            "ORIGIN",
        ),
    ] = None,
    log_format: Annotated[
        str,
        option(
            "text for people, or json: an object a line, for each request too, without texts and keys",
            "text|json",
        ),
    ] = "text",
    change: Annotated[
        list[str] | None,
        option("change a limit, such as characters=2000; can be repeated", "LIMIT=NUMBER", "--set"),
    ] = None,
) -> None:
    """Serve the page that shows every number, and a translation API.

    Open the address it prints: type a sentence, and see each matrix that led to its translation.
    Programs written for LibreTranslate work with it, at /translate; documents (.docx, .odt, .html,
    .md, .srt, .po and more) are translated at /translate_file; /openapi.json describes the rest,
    /metrics is for Prometheus. Nothing leaves the machine, and no text is stored but suggestions,
    where --corrections asks for them. Ctrl-C and SIGTERM stop the server within some seconds (--set
    stopping=8): requests under way are answered, and those for which there is no time are told to
    come again.

    It listens on this machine only, unless you give another --host. Requests that arrive together
    are translated together, and each gets the same text as it would alone. A request beyond a limit
    is refused with the reason; docs/reference/settings.md lists the limits that --set changes.

    Several models serve several directions: a request is answered by the model for its languages,
    which is loaded when it is first needed. The page looks into the first. A model whose directory
    is replaced, as a training run replaces best/, is loaded anew, and no request is lost; one of
    other languages is refused, and the old one goes on.
    """
    _require_packages()
    from pellucid.cpu import share_free_memory

    share_free_memory()  # before torch is imported, which makes threads
    from pellucid.config import apply_overrides, build_settings
    from pellucid.serve.connections import bind_socket, serve_until_stopped
    from pellucid.serve.corrections import Corrections
    from pellucid.serve.gate import ApiKeys, log_request
    from pellucid.serve.settings import Languages, Limits

    tell = _begin_log(log_format)
    limits = build_settings(Limits, apply_overrides({}, change or (), "characters=2000"), "--set")

    # Mistakes in the options are reported before the model is loaded.
    (named, model), *other_models = [_split_languages(text) for text in models]
    if other_models:
        _refuse_options_of_one({"--terms": terms, "--memory": memory, "--exported": exported})
    source, target = named or (None, None)
    Languages.from_manifest({}, source, target)
    if terms is not None:
        require_file(terms)
    kept_corrections = None if corrections is None else Corrections(corrections)
    keys = ApiKeys() if api_key_file is None else ApiKeys.from_file(api_key_file)

    # The socket is bound before the model is loaded, so that a taken port is reported at once.
    with bind_socket(host, port) as listening:
        from pellucid.api import load
        from pellucid.serve.app import create_app

        load_first = partial(load, model, precision, engine, exported=exported, device=device)
        loaded = load_first()
        others: list[Direction] = []
        for named, directory in other_models:
            load_other = partial(load, directory, precision, engine, device=device)
            others += _make_directions(directory, named, load_other)

        languages = Languages.from_manifest(loaded.manifest, source, target)
        if terms or memory:
            _require_one_direction(loaded, languages, model)
        terminology, remembered = read_terms_and_memory(terms, memory, languages.codes)
        app = create_app(
            loaded,
            limits,
            languages=languages,
            others=others,
            reload=load_first,
            hosts=_known_hosts(host, allow_host or ()),
            origins=allow_origin or (),
            terms=terminology,
            keys=keys,
            translation_memory=remembered,
            corrections=kept_corrections,
            request_log=log_request if log_format == "json" else None,
            training_text=_find_training_text(loaded, host),
        )

        address = _address_of(host, listening)
        are = f"and {len(other_models)} more models are" if other_models else "is"
        served = f"{model} {are} served at {address}"
        are_named = languages.are_named or loaded.is_multilingual
        for note in _serving_notes(served, _is_loopback(host), bool(keys), are_named, exported):
            tell(note)
        if browse:
            import webbrowser

            webbrowser.open(address)
        serve_until_stopped(app, listening, limits)

    _end_service(app.state.service, tell)


def _require_packages() -> None:
    """Raise ValueError, saying how to install them, where packages of the server are missing."""
    needed = ("fastapi", "uvicorn", "prometheus_client")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise ValueError(f"{' and '.join(missing)} {are} not installed; run: pip install 'pellucid[serve]'")


def _refuse_options_of_one(options: Mapping[str, str | None]) -> None:
    """Raise ValueError if an option is used that says something about one model."""
    used = [name for name, value in options.items() if value]
    if used:
        raise ValueError(f"{' and '.join(used)}: only for one model")


def _begin_log(log_format: str) -> "Callable[[str], object]":
    """Return the function that tells the operator something, in text or in JSON.

    Raises ValueError for another format.
    """
    import logging

    from pellucid.serve.gate import log_as_json

    if log_format not in ("text", "json"):
        raise ValueError(f"--log-format is {log_format!r}, it must be text or json")
    if log_format == "text":
        return partial(typer.echo, err=True)
    log_as_json()
    return logging.getLogger("pellucid.serve").info


def _known_hosts(host: str, allow_host: Sequence[str]) -> frozenset[str] | None:
    """Return the host names that are answered; None lets all pass.

    Only known ones are, so that no web page can reach a local server by a name of its own (DNS
    rebinding). A server for other machines without --allow-host cannot know its names.
    """
    from pellucid.serve.gate import LOOPBACK

    if not allow_host and not _is_loopback(host):
        return None
    return LOOPBACK | {name.lower() for name in (host, *allow_host)}


def _split_languages(model: str) -> tuple[tuple[str, str] | None, str]:
    """Split languages from the directory that they stand before.

    >>> _split_languages("en:pt-BR=runs/demo/best"), _split_languages("runs/demo/best")
    ((('en', 'pt-BR'), 'runs/demo/best'), (None, 'runs/demo/best'))
    """
    match = re.fullmatch(r"([\w-]{2,}):([\w-]{2,})=(.+)", model)
    return ((match[1], match[2]), match[3]) if match else (None, model)


def _make_directions(
    directory: str, languages: tuple[str, str] | None, load: "Callable[[], Model]"
) -> "list[Direction]":
    """Return the directions of a model, whose files are checked now.

    The model itself is loaded when it is needed.
    """
    from pellucid.serve.directions import Direction
    from pellucid.serve.settings import Languages
    from pellucid.store.directory import load_bundle

    bundle = load_bundle(directory, lazy=True)
    codes = Languages.from_manifest(bundle.manifest, *(languages or (None, None)))
    direction = Direction(codes, bundle.tokenizer, load, Path(directory), manifest=bundle.manifest)
    return direction.split(bundle.manifest)


def _require_one_direction(loaded: "Model", languages: "Languages", model: str) -> None:
    """Raise ValueError for a multilingual model whose two languages were not named."""
    if loaded.is_multilingual and not languages.are_named:
        advice = f"only for one direction of {model}; choose it: en:es={model}"
        raise ValueError(f"--memory and --terms: {advice}")


def _find_training_text(loaded: "Model", host: str) -> "TrainingText | None":
    """Return the training text beside a model.

    It may be private, so a server for other machines shows nothing of it and gets None.
    """
    from pellucid.serve.training_text import TrainingText

    if not _is_loopback(host):
        return None
    return TrainingText.find_beside(loaded.directory, loaded.manifest)


def _is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only.

    >>> _is_loopback("127.0.0.2"), _is_loopback("localhost"), _is_loopback("0.0.0.0"), _is_loopback("example.com")
    (True, True, False, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _address_of(host: str, listening: "socket") -> str:
    """Return the address of the page. The socket knows the port: with --port 0 the system chose it."""
    name = f"[{host}]" if ":" in host else host  # IPv6 stands in brackets
    return f"http://{name}:{listening.getsockname()[1]}/"


def _serving_notes(
    served: str, is_local: bool, has_keys: bool, are_languages_named: bool, exported: str | None
) -> list[str]:
    """Return what is served and who can reach it, with notes on languages, an export, and a page that is not built."""
    from pellucid.interpret.page.html_file import read_script

    reach = "nothing leaves this machine"
    if not is_local:
        reach = "other machines can reach it, and it sends nothing anywhere but its answers to them"
    notes = [f"{served}; {reach}. Ctrl-C stops it"]
    if not are_languages_named:
        notes.append("the model does not say its languages, so any are taken; name them: en:es=DIR")
    if exported is not None:
        notes.append(f"{exported} translates; the page looks into the model that it was made of")
    try:
        read_script()
    except ValueError as error:
        notes.append(f"{error}; everything else is served")

    if not is_local and has_keys:
        notes.append("API keys and texts travel unencrypted; put a proxy with TLS before it")
    elif not is_local:
        notes.append(
            "anyone who reaches it may use it, and texts travel unencrypted; ask for keys (--api-key-file) and put a "
            "proxy with TLS before it"
        )

    return notes


def _end_service(service: "Service", tell: "Callable[[str], object]") -> None:
    """Say that the server has stopped, and end the process if it was asked to stop."""
    if service.is_abandoned:
        tell("work that did not end in time was left")
    tell("stopped")
    if service.stops_at is not None:
        _end_process()


def _end_process() -> NoReturn:
    """End the process at once, with what else is to be done at its end.

    Python's own end takes torch apart, which took 15 seconds on a busy machine, and aborts the
    process (exit code 134) while a thread is inside of torch or CTranslate2.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
