"""Fills a folder with the wheels that a machine without network needs, and an install.sh that uses nothing else.

    python scripts/offline_bundle.py --python-version 3.12 --skip torch numpy
    (copy wheels/ over, then there)  sh wheels/install.sh

Run it where there is a network; only pip and the standard library are used. `--skip` names what the other machine
already has: those are neither fetched nor, where another package brings them along, kept.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

INSTALL = """#!/bin/sh
# Installs from this folder alone. PYTHON names the Python (default python3); further arguments go to pip.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "${{PYTHON:-python3}}" -m pip install --disable-pip-version-check --no-index --find-links "$here" {packages} "$@"
"""


def normal(name: str) -> str:
    """A requirement's package name as indexes compare it: `Typing_Extensions>=4` is typing-extensions."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", name.strip())[0]).lower()


def compatible(platform: str) -> list[str]:
    """The platform and the older ones whose wheels it can run: pip itself does not add these when one is named."""
    match = re.fullmatch(r"manylinux_2_(\d+)_(\w+)", platform)
    if not match:
        return [platform]
    newest, machine = int(match[1]), match[2]
    older = [f"manylinux_2_{minor}_{machine}" for minor in range(newest, 4, -1)]
    return older + ([f"manylinux2014_{machine}"] if newest >= 17 else [])


def pip(*arguments: str) -> None:
    """Runs pip, or stops with one sentence."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], capture_output=True, text=True
    )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        sys.exit(f"offline bundle: pip {arguments[0]} failed: {errors[-1] if errors else done.stderr[-500:]}")


def main() -> None:
    """Reads the dependencies from pyproject.toml, downloads, builds, writes install.sh."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python-version", default="3.12", help="of the other machine (default 3.12)")
    parser.add_argument("--platform", default="manylinux_2_28_x86_64", help="of the other machine, as wheels name it")
    parser.add_argument("--skip", nargs="*", default=[], metavar="PACKAGE", help="what the other machine already has")
    parser.add_argument("--extras", nargs="*", default=[], metavar="EXTRA", help="extras of pyproject.toml to include")
    parser.add_argument("--out", type=Path, default=ROOT / "wheels", help="folder to fill; emptied first")
    parser.add_argument("--dependencies-only", action="store_true", help="leave Recombine's own wheel out")
    options = parser.parse_args()

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in options.extras:
        if extra not in project["optional-dependencies"]:
            sys.exit(f"offline bundle: no extra {extra!r}; there are {', '.join(project['optional-dependencies'])}.")
        wanted += project["optional-dependencies"][extra]
    skip = {normal(name) for name in options.skip}
    unknown = skip - {normal(line.split("==")[0]) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    if unknown:
        print(f"offline bundle: nothing here needs {', '.join(sorted(unknown))}; skipped all the same")
    wanted = [requirement for requirement in wanted if normal(requirement) not in skip]
    if not wanted and options.dependencies_only:
        sys.exit("offline bundle: with all of that skipped nothing is left to bundle.")

    if options.out.exists():
        strangers = [p.name for p in options.out.iterdir() if p.suffix != ".whl" and p.name != "install.sh"]
        if strangers:
            sys.exit(
                f"offline bundle: {options.out} holds other files ({strangers[0]}); name another folder with --out."
            )
        shutil.rmtree(options.out)
    options.out.mkdir(parents=True)

    target = ["--implementation", "cp", "--python-version", options.python_version]
    for platform in compatible(options.platform):
        target += ["--platform", platform]
    constraints = ["-c", str(ROOT / "constraints.txt"), "-d", str(options.out)]
    if wanted:
        pip("download", "--only-binary=:all:", *target, *constraints, *wanted)
    for wheel in options.out.glob("*.whl"):
        if normal(wheel.name.split("-")[0]) in skip:
            wheel.unlink()
    if not options.dependencies_only:
        pip("wheel", "--no-deps", "-w", str(options.out), str(ROOT))
        wanted = ["recombine" + (f"[{','.join(options.extras)}]" if options.extras else "")]

    packages = " ".join(f"'{name}'" for name in wanted)
    (options.out / "install.sh").write_text(INSTALL.format(packages=packages))
    (options.out / "install.sh").chmod(0o755)
    wheels = sorted(options.out.glob("*.whl"))
    size = sum(wheel.stat().st_size for wheel in wheels) / 2**20
    print(f"{options.out}: {len(wheels)} wheels, {size:.1f} MiB: {', '.join(wheel.name for wheel in wheels)}")


if __name__ == "__main__":
    main()
