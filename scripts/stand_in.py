"""Makes stand-ins for base images from this machine's programs and libraries, for machines that reach no registry."""

import os
import pathlib
import shutil
import subprocess


def make_image(name, root, programs=(), libraries_of=(), directories=(), changes=()):
    """Makes an image of the files in the directory `root`, and adds programs of this machine to them, with the
    libraries of these and of other programs, and empty directories. `changes` are instructions of a Dockerfile."""
    root = pathlib.Path(root)
    for program in programs:
        found = shutil.which(program)
        (root / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(found), root / "bin" / program)
    for program in [*map(shutil.which, programs), *libraries_of]:
        for path in libraries(program):
            target = root / path.lstrip("/")
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(os.path.realpath(path), target)
    for directory in ["etc", "tmp", *directories]:
        (root / directory).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    tar = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
    arguments = [word for change in changes for word in ("-c", change)]
    subprocess.run(["docker", "import", *arguments, "-", name], stdin=tar.stdout, stdout=subprocess.DEVNULL, check=True)


def libraries(program):
    """Returns the paths of a program's shared libraries."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]
