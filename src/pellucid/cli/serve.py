"""`pellucid serve`: serves the page that shows every number of a model, and LibreTranslate's API."""

import webbrowser
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Annotated, Any, get_type_hints

import typer

from pellucid.cli.options import ENGINE, EXPORTED, MODEL, PRECISIONS

EXAMPLES = """\
  pellucid serve runs/demo/best --open
  pellucid serve runs/demo/best --from en --to es --port 8080
  pellucid serve runs/demo/best --host 0.0.0.0 --characters 2000 --texts 16
  pellucid serve runs/demo/best --exported demo-int8
  curl -d q="The ball is blue." -d source=en -d target=es http://127.0.0.1:5000/translate"""


def limit_option(name: str) -> Any:
    """Return an option whose help is the description of a field of `Limits`."""
    from pellucid.serve.settings import Limits

    option = "--" + name.replace("_", "-")
    return typer.Option(option, help=get_type_hints(Limits, include_extras=True)[name].__metadata__[0])


def limit_default(name: str) -> Any:
    """Return the default of a field of `Limits`."""
    from pellucid.serve.settings import Limits

    return getattr(Limits, name)


def run(
    model: Annotated[str, MODEL],
    host: Annotated[str, typer.Option(help="address to listen on; 0.0.0.0 lets other machines connect")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="port to listen on; 0 takes any free one")] = 5000,
    browse: Annotated[bool, typer.Option("--open", help="open the page in a browser")] = False,
    source: Annotated[
        str | None, typer.Option("--from", metavar="CODE", help="language the model translates from, such as en")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--to", metavar="CODE", help="language it translates to, such as es")
    ] = None,
    engine: Annotated[str, ENGINE] = "auto",
    precision: Annotated[str, PRECISIONS] = "float32",
    exported: Annotated[str | None, EXPORTED] = None,
    terms: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="terminology: on each line a source term, a tab and its target term"),
    ] = None,
    api_key_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="file of API keys, one per line; requests without one of them are refused"),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="another host name that requests may use, for example through a proxy"),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="site whose pages may send requests, such as https://example.com; * for any"
        ),
    ] = None,
    characters: Annotated[int, limit_option("characters")] = limit_default("characters"),
    texts: Annotated[int, limit_option("texts")] = limit_default("texts"),
    alternatives: Annotated[int, limit_option("alternatives")] = limit_default("alternatives"),
    request_terms: Annotated[int, limit_option("request_terms")] = limit_default("request_terms"),
    term_characters: Annotated[int, limit_option("term_characters")] = limit_default("term_characters"),
    body: Annotated[int, limit_option("body")] = limit_default("body"),
    waiting: Annotated[int, limit_option("waiting")] = limit_default("waiting"),
    connections: Annotated[int, limit_option("connections")] = limit_default("connections"),
    open_: Annotated[int, limit_option("open_requests")] = limit_default("open_requests"),
    each: Annotated[int, limit_option("each")] = limit_default("each"),
    seconds: Annotated[float, limit_option("seconds")] = limit_default("seconds"),
    arrival: Annotated[float, limit_option("arrival")] = limit_default("arrival"),
    beam: Annotated[int, limit_option("beam")] = limit_default("beam"),
    traces: Annotated[int, limit_option("traces")] = limit_default("traces"),
    trace_bytes: Annotated[int, limit_option("trace_bytes")] = limit_default("trace_bytes"),
    trace_minutes: Annotated[float, limit_option("trace_minutes")] = limit_default("trace_minutes"),
) -> None:
    """Serve the page that shows every number, and a translation API.

    Open the address it prints: type a sentence, and see each matrix that led to its translation. Programs written for
    LibreTranslate work with it, at /translate; /openapi.json describes the rest, /metrics is for Prometheus. Nothing
    leaves the machine, and no text is stored. Ctrl-C stops the server once the requests under way are answered.

    It listens on this machine only, unless you give another --host. Requests that arrive together are translated
    together, and each gets the same text as it would alone. Every limit is on by default; a request beyond a limit is
    refused with the reason.
    """
    require_server_packages()
    from pellucid.serve.settings import Limits

    limits = Limits(
        characters, texts, alternatives, request_terms, term_characters, body, waiting, connections, open_, each,
        seconds, arrival, beam, traces, trace_bytes, trace_minutes,
    )  # fmt: skip
    from pellucid.decode.terms import Terms
    from pellucid.serve import connections as runner
    from pellucid.serve.gate import ApiKeys
    from pellucid.serve.settings import Languages

    # Mistakes in the options are reported before the model is loaded.
    Languages.from_manifest({}, source, target)
    terminology = None if terms is None else Terms.read(terms)
    keys = ApiKeys() if api_key_file is None else ApiKeys.from_file(api_key_file)
    # The socket is bound before the model is loaded, so that a taken port is reported at once.
    with runner.bind_socket(host, port) as listening:
        from pellucid.api import load
        from pellucid.serve.app import create_app
        from pellucid.serve.gate import LOOPBACK

        loaded = load(model, precision, engine, exported=exported)
        languages = Languages.from_manifest(loaded.manifest, source, target)
        names = {name.lower() for name in (host, *(allow_host or ()))}
        # Only known host names are answered, so that no web page can reach a local server by a name of its own (DNS
        # rebinding). A server for other machines without --allow-host cannot know its names: None lets all pass.
        hosts = LOOPBACK | names if allow_host or is_loopback(host) else None
        app = create_app(
            loaded, limits, languages=languages, hosts=hosts, origins=allow_origin or (), terms=terminology, keys=keys
        )
        # The port is asked of the socket: with --port 0 the system chose it. IPv6 addresses stand in brackets.
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
        typer.echo(f"{model} is served at {address}; {describe_reach(host)}. Ctrl-C stops it", err=True)
        for note in [*serving_notes(languages.are_named, exported), *warn_of_exposure(is_loopback(host), bool(keys))]:
            typer.echo(note, err=True)
        if browse:
            webbrowser.open(address)
        runner.serve_until_stopped(app, listening, limits)
    typer.echo("stopped", err=True)


def require_server_packages() -> None:
    """Raise ValueError, naming them, if packages that the server needs are not installed."""
    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise ValueError(f"{' and '.join(missing)} {are} not installed; run: pip install 'pellucid[serve]'")


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only.

    >>> is_loopback("127.0.0.2"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("example.com")
    (True, True, False, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def describe_reach(host: str) -> str:
    """Return in words who can reach the server."""
    if is_loopback(host):
        return "nothing leaves this machine"
    return "other machines can reach it, and it sends nothing anywhere but its answers to them"


def warn_of_exposure(local_only: bool, has_keys: bool) -> list[str]:
    """Return a warning if other machines can reach the server, saying what should protect it."""
    if local_only:
        return []
    if has_keys:
        return ["API keys and texts travel unencrypted; put a proxy with TLS before it"]
    return [
        "anyone who reaches it may use it, and texts travel unencrypted; ask for keys (--api-key-file) and put a proxy "
        "with TLS before it"
    ]


def serving_notes(are_named: bool, exported: str | None) -> list[str]:
    """Return notes for the user on languages, an exported model and a page that is not built."""
    from pellucid.page.assets import read_script

    notes = (
        [] if are_named else ["the model does not say its languages, so any are taken; name them: --from en --to es"]
    )
    if exported is not None:
        notes.append(f"{exported} translates; the page looks into the model that it was made of")
    try:
        read_script()
    except ValueError as error:
        notes.append(f"{error}; everything else is served")
    return notes
