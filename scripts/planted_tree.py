"""A copy of the tree in which changes of the code are switched on by name, for `scripts/planted`: one build
holds them all. Each function that a change touches gets a second body, which runs if WINDLASS_PLANTED names the change. Changes
outside of functions, in constant functions and in those that return `impl Trait` cannot be switched."""

import difflib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "planted"
TREE = WORK / "tree"
FUNCTION = re.compile(r"( *)(?:pub(?:\([^)]*\))? )?(?:async |unsafe )*fn \w")
SWITCH = """if {{
static IS_PLANTED: ::std::sync::LazyLock<bool> =
    ::std::sync::LazyLock::new(|| ::std::env::var_os("WINDLASS_PLANTED").is_some_and(|name| name == "{name}"));
*IS_PLANTED
}} {{
{changed}
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


def copy_tree(changed: dict[str, str]) -> None:
    """Writes only files that differ, so that cargo builds no more than it must."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = set(subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0"))
    for old in [path for path in TREE.rglob("*") if path.is_file()]:
        if str(old.relative_to(TREE)) not in names:
            old.unlink()
    for name in sorted(names - {""}):
        source, target = ROOT / name, TREE / name
        if not source.is_file():
            continue
        content = changed[name].encode() if name in changed else source.read_bytes()
        if target.is_file() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(source.stat().st_mode)


def cargo(*arguments: str) -> tuple[bool, list[dict]]:
    """Runs cargo in the copy; returns whether it succeeded, and its messages."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(WORK / "build"), "CARGO_INCREMENTAL": "1"}
    command = ["cargo", *arguments, "--message-format=json-render-diagnostics"]
    ran = subprocess.run(command, cwd=TREE, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return ran.returncode == 0, [json.loads(line) for line in ran.stdout.splitlines()]


class Tests:
    """The tests of a target with a text in their names, such as `-p windlass-core --lib job::`."""

    def __init__(self, suite: str) -> None:
        target, self.name = suite.rsplit(" ", 1)
        is_built, messages = cargo("test", *target.split(), "--no-run")
        if not is_built:
            sys.exit(f"{target}: it does not build")
        test = next(one for one in messages if one.get("executable") and one["profile"]["test"])
        self.program, self.folder = test["executable"], pathlib.Path(test["manifest_path"]).parent

    def run(self, planted: str, limit: float) -> tuple[str | None, float]:
        """The first test that fails, if one does, and how long all took."""
        environment = {**os.environ, "WINDLASS_PLANTED": planted}
        began = time.monotonic()
        output = subprocess.PIPE
        test = subprocess.Popen(
            [self.program, self.name], cwd=self.folder, env=environment, stdout=output, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        )  # fmt: skip
        try:
            said, _ = test.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(test.pid, signal.SIGKILL)
            test.wait()
            return "the time limit", time.monotonic() - began
        took = time.monotonic() - began
        (WORK / "last-output").write_text(said)
        if test.returncode == 0:
            return (None if re.search(r"ok\. [1-9]", said) else "no test has this name"), took
        failed = re.findall(r"^---- (.*) stdout ----$", said, re.MULTILINE)
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        return (f"`{failed[0]}`{more}" if failed else "an abort"), took
