"""A copy of the tree in which changes of the code are switched on by name, for `scripts/planted` and `scripts/mutants`: one build
holds them all. Each function that a change touches gets a second body, which runs if WINDLASS_PLANTED names the change. Changes
outside of functions, in constant functions and in those that return `impl Trait` cannot be switched. Where WINDLASS_PLANTED_REACHED
names a file, each process writes the names of the changes there whose functions it calls."""

import difflib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTION = re.compile(r"( *)(?:pub(?:\([^)]*\))? )?(?:async |unsafe )*fn \w")
SWITCH = """if {{
static IS_PLANTED: ::std::sync::LazyLock<bool> = ::std::sync::LazyLock::new(|| {{
    if let Some(file) = ::std::env::var_os("WINDLASS_PLANTED_REACHED") {{
        use ::std::io::Write as _;
        let file = ::std::fs::OpenOptions::new().append(true).open(file);
        file.and_then(|mut file| file.write_all(b"{name}\\n")).expect("the file is there");
    }}
    ::std::env::var_os("WINDLASS_PLANTED").is_some_and(|name| name == "{name}")
}});
*IS_PLANTED
}} {{
// Planted: {name}
{changed}
// Until: {name}
}} else {{
{body}
}}"""


def functions(lines: list[str]) -> list[tuple[int, int]]:
    """Where the bodies of functions begin and end, in source that rustfmt has formatted."""
    found = []
    for first, line in enumerate(lines):
        start = FUNCTION.match(line)
        if not start:
            continue
        indent = start.group(1)
        own = [at for at in range(first, len(lines)) if re.match(rf"{indent}\S", lines[at])]
        opens = next((at for at in own if lines[at].endswith(("{", ";", "}"))), None)
        if opens is None or not lines[opens].endswith("{") or "-> impl " in " ".join(lines[first : opens + 1]):
            continue
        found.append((opens, next(at for at in own if at > opens and lines[at] == indent + "}")))
    return found


def second_bodies(before: str, after: str) -> dict[tuple[int, int], str] | None:
    """The functions that a change touches, each with its changed body, unless it touches anything else."""
    old, new = before.split("\n"), after.split("\n")
    changes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    moved = {}
    for kind, first, last, there, _ in changes:
        if kind == "equal":
            moved.update((at, there + at - first) for at in range(first, last))
    bodies = {}
    for kind, first, last, _, _ in changes:
        if kind == "equal":
            continue
        around = [body for body in functions(old) if body[0] < first and last <= body[1]]
        if not around:
            return None
        opens, ends = max(around)
        bodies[opens, ends] = "\n".join(new[moved[opens] + 1 : moved[ends]])
    return bodies


def plant(changes: dict[str, dict[str, str]]) -> tuple[dict[str, str], list[str]]:
    """The files with all changes that can be switched on, and the names of the others. A change is a text for each of its files."""
    planted: dict[str, dict[tuple[int, int], str]] = {}
    others = []
    for change, texts in changes.items():
        bodies = {name: second_bodies((ROOT / name).read_text(), text) for name, text in texts.items()}
        if None in bodies.values():
            others.append(change)
            continue
        for name, changed in bodies.items():
            lines, own = (ROOT / name).read_text().split("\n"), planted.setdefault(name, {})
            for place, body in changed.items():
                before = own.get(place, "\n".join(lines[place[0] + 1 : place[1]]))
                own[place] = SWITCH.format(name=change, changed=body, body=before)
    files = {}
    for name, own in planted.items():
        lines = (ROOT / name).read_text().split("\n")
        for (opens, ends), body in sorted(own.items(), reverse=True):
            lines[opens + 1 : ends] = body.split("\n")
        files[name] = "\n".join(lines)
    return files, others


def planted_at(text: str, line: int) -> str | None:
    """The change in whose body this line is, counted from 1."""
    open_ones: list[str] = []
    for before in text.split("\n")[:line]:
        if before.startswith("// Planted: "):
            open_ones.append(before.removeprefix("// Planted: "))
        elif before.startswith("// Until: "):
            open_ones.pop()
    return open_ones[-1] if open_ones else None


class Copy:
    """A copy of the tree with its own build, in a folder of `target/` that the next run finds again."""

    def __init__(self, name: str) -> None:
        self.folder = ROOT / "target" / name
        self.tree = self.folder / "tree"

    def write(self, changed: dict[str, str]) -> None:
        """Writes only files that differ, so that cargo builds no more than it must."""
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = set(subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0"))
        for old in [path for path in self.tree.rglob("*") if path.is_file()]:
            if str(old.relative_to(self.tree)) not in names:
                old.unlink()
        for name in sorted(names - {""}):
            source, target = ROOT / name, self.tree / name
            if not source.is_file():
                continue
            content = changed[name].encode() if name in changed else source.read_bytes()
            if target.is_file() and target.read_bytes() == content:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(source.stat().st_mode)

    def cargo(self, *arguments: str, messages: str = "json-render-diagnostics") -> tuple[bool, list[dict]]:
        """Runs cargo in the copy; returns whether it succeeded, and its messages."""
        environment = {**os.environ, "CARGO_TARGET_DIR": str(self.folder / "build"), "CARGO_INCREMENTAL": "1"}
        command = ["cargo", *arguments, f"--message-format={messages}"]
        ran = subprocess.run(command, cwd=self.tree, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        return ran.returncode == 0, [json.loads(line) for line in ran.stdout.splitlines()]

    def tests(self, target: str, *names: str) -> "Tests":
        """Builds the tests of a target, such as `-p windlass-core --lib`."""
        is_built, messages = self.cargo("test", *target.split(), "--no-run")
        if not is_built:
            sys.exit(f"{target}: it does not build")
        return Tests(messages, names)


class Tests:
    """The tests of a built target that have one of these texts in their names."""

    def __init__(self, messages: list[dict], names: tuple[str, ...]) -> None:
        test = next(one for one in messages if one.get("executable") and one["profile"]["test"])
        self.program, self.folder = test["executable"], pathlib.Path(test["manifest_path"]).parent
        self.names = names

    def run(self, planted: str, limit: float, *, only_first: bool = False, reached: str = "") -> tuple[str | None, float]:
        """The first test that fails, if one does, and how long all took, or those until then."""
        environment = {**os.environ, "WINDLASS_PLANTED": planted}
        if reached:
            environment["WINDLASS_PLANTED_REACHED"] = reached
        began = time.monotonic()
        test = subprocess.Popen(
            [self.program, *self.names], cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        is_late = threading.Event()

        def stop() -> None:
            is_late.set()
            os.killpg(test.pid, signal.SIGKILL)

        timer = threading.Timer(limit, stop)
        timer.start()
        said, failed = [], []
        for line in test.stdout:
            said.append(line)
            failed += re.findall(r"^test (\S+).* \.\.\. FAILED$", line)
            if failed and only_first:
                os.killpg(test.pid, signal.SIGKILL)
                break
        test.wait()
        timer.cancel()
        took = time.monotonic() - began
        if failed:
            more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
            return f"`{failed[0]}`{more}", took
        if is_late.is_set():
            return "the time limit", took
        if test.returncode == 0:
            return (None if re.search(r"ok\. [1-9]", "".join(said)) else "no test has this name"), took
        return "an abort", took
