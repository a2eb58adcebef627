"""`pellucid serve`: the page that shows every number of a model, and translation for LibreTranslate's clients."""

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
    """An option with the meaning of a field of `Limits` as its help."""
    from pellucid.serve.limits import Limits

    option = "--" + name.replace("_", "-")
    return typer.Option(option, help=get_type_hints(Limits, include_extras=True)[name].__metadata__[0])


def limit_default(name: str) -> Any:
    """The default of a field of `Limits`."""
    from pellucid.serve.limits import Limits

    return getattr(Limits, name)


def run(
    model: Annotated[str, MODEL],
    host: Annotated[
        str, typer.Option(help="address to listen on; 0.0.0.0 is reached from other machines")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free")] = 5000,
    browse: Annotated[bool, typer.Option("--open", help="open the page in a browser")] = False,
    source: Annotated[
        str | None, typer.Option("--from", metavar="CODE", help="language the model reads, such as en")
    ] = None,
    target: Annotated[str | None, typer.Option("--to", metavar="CODE", help="language it writes, such as es")] = None,
    engine: Annotated[str, ENGINE] = "auto",
    precision: Annotated[str, PRECISIONS] = "float32",
    exported: Annotated[str | None, EXPORTED] = None,
    terms: Annotated[
        str | None, typer.Option(metavar="FILE", help="terminology: lines of a source term, a tab, its target term")
    ] = None,
    api_key_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="API keys, one a line: who sends none of them is refused"),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="another name this server is addressed by, as a proxy does")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="a site whose pages may ask, such as https://example.com; * for any"),
    ] = None,
    characters: Annotated[int, limit_option("characters")] = limit_default("characters"),
    texts: Annotated[int, limit_option("texts")] = limit_default("texts"),
    alternatives: Annotated[int, limit_option("alternatives")] = limit_default("alternatives"),
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
    """The page that shows every number, and a server that translates.

    Open the address it prints: type a sentence, and see each matrix that led to its translation. Programs that speak to
    LibreTranslate speak to it too, at /translate; /openapi.json describes the rest, /metrics is for Prometheus. Nothing
    leaves the machine, and no text is stored. Ctrl-C stops it when what is under way is answered.

    It listens on this machine only unless another --host is given. Requests are translated together as they come, and
    the texts are those that each alone would get. Every limit is on; what goes beyond one is refused with a reason.
    """
    require_server_packages()
    from pellucid.serve.limits import Limits

    limits = Limits(
        characters, texts, alternatives, body, waiting, connections, open_, each, seconds, arrival, beam, traces,
        trace_bytes, trace_minutes,
    )  # fmt: skip
    from pellucid.decode.terms import Terms
    from pellucid.serve import running as runner
    from pellucid.serve.keys import ApiKeys
    from pellucid.serve.languages import Languages

    # What is wrong with the options is said before the model is loaded.
    Languages.of({}, source, target)
    terminology = None if terms is None else Terms.read(terms)
    keys = ApiKeys() if api_key_file is None else ApiKeys.from_file(api_key_file)
    with runner.bind_socket(host, port) as listening:
        from pellucid.api import load
        from pellucid.serve.app import create_app
        from pellucid.serve.middleware import LOOPBACK

        loaded = load(model, precision, engine, exported=exported)
        languages = Languages.of(loaded.manifest, source, target)
        names = {name.lower() for name in (host, *(allow_host or ()))}
        hosts = LOOPBACK | names if allow_host or is_loopback(host) else None
        app = create_app(
            loaded, limits, languages=languages, hosts=hosts, origins=allow_origin or (), terms=terminology, keys=keys
        )
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
        typer.echo(f"{model} is served at {address}; {describe_reach(host)}. Ctrl-C stops it", err=True)
        for note in [*serving_notes(languages.are_named, exported), *warn_of_exposure(is_loopback(host), bool(keys))]:
            typer.echo(note, err=True)
        if browse:
            webbrowser.open(address)
        runner.serve_until_stopped(app, listening, limits)
    typer.echo("stopped", err=True)


def require_server_packages() -> None:
    """ValueError where what serves is not installed."""
    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise ValueError(f"{' and '.join(missing)} {are} not installed; run: pip install 'pellucid[serve]'")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> is_loopback("127.0.0.2"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("example.com")
    (True, True, False, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def describe_reach(host: str) -> str:
    """Who can ask, in words."""
    if is_loopback(host):
        return "nothing leaves this machine"
    return "other machines can reach it, and it sends nothing anywhere but its answers to them"


def warn_of_exposure(ours: bool, keys: bool) -> list[str]:
    """What it means that others can reach the server, and what should stand before it."""
    if ours:
        return []
    if keys:
        return ["API keys and texts travel unencrypted; put a proxy with TLS before it"]
    return [
        "anyone who reaches it may use it, and texts travel unencrypted; ask for keys (--api-key-file) and put a proxy "
        "with TLS before it"
    ]


def serving_notes(named: bool, exported: str | None) -> list[str]:
    """What the user may want to know, or to change."""
    from pellucid.page.assets import read_script

    found = [] if named else ["the model does not say its languages, so any are taken; name them: --from en --to es"]
    if exported is not None:
        found.append(f"{exported} translates; the page looks into the model that it was made of")
    try:
        read_script()
    except ValueError as error:
        found.append(f"{error}; everything else is served")
    return found
