"""A program that exports functions of the image libraries' names: libfovea.so calls its own all the same."""

import os
import pathlib
import re
import subprocess

import pytest
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORMATS = {"jpg": "JPEG", "png": "PNG", "tif": "TIFF", "webp": "WEBP", "gif": "GIF"}
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fovea/c/encoder.h"
#include "fovea/c/status.h"
void other(void);
int main(int argc, char** argv) {
  fovea_encoder* encoder = NULL;
  fovea_embedding* run = NULL;
  fovea_embed_options options = {0};
  fovea_image images[16] = {{0}};
  size_t count = (size_t)argc - 2, which;
  int32_t ended = 0;
  other();
  if (fovea_encoder_load(argv[1], "cpu", "fp32", 0, &encoder) != FOVEA_OK) { puts(fovea_last_error()); return 1; }
  for (which = 0; which < count; ++which) {
    images[which].kind = FOVEA_IMAGE_FILE;
    images[which].data = argv[which + 2];
    images[which].size = strlen(argv[which + 2]);
  }
  float* rows = malloc(count * (size_t)fovea_encoder_dimension(encoder) * sizeof(float));
  if (fovea_embed_start(encoder, images, count, &options, rows, &run) != FOVEA_OK) { return 1; }
  while (!ended) { if (fovea_embed_wait(run, 1000, &ended) != FOVEA_OK) { return 1; } }
  for (which = 0; which < fovea_embed_failures(run); ++which) {
    size_t index; const char* reason;
    if (fovea_embed_failure(run, which, &index, &reason) == FOVEA_OK) { puts(reason); }
  }
  printf("%d failed, first number %.6f\n", (int)fovea_embed_failures(run), rows[0]);
  free(rows);
  fovea_embed_free(run);
  fovea_encoder_free(encoder);
  return 0;
}
"""


@pytest.fixture(scope="module")
def library(fovea_bin):
    path = pathlib.Path(os.environ.get("FOVEA_LIBRARY", fovea_bin.parent.parent / "lib" / "libfovea.so"))
    if "asan" in str(path):
        pytest.skip("a sanitizer does not permit that libraries are opened apart from the process")
    assert path.is_file() and (path.parent / "libfovea_codecs.so").is_file()
    return path


def symbols(option, path):
    found = subprocess.run(["nm", "-D", option, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in found.splitlines()}


def codec_libraries(library):
    """The image libraries, from the list of what libfovea_codecs.so needs."""
    codecs = library.parent / "libfovea_codecs.so"
    needed = re.findall(
        r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", codecs], capture_output=True, text=True).stdout
    )
    places = dict(
        re.findall(r"^\s*(\S+) => (\S+)", subprocess.run(["ldd", codecs], capture_output=True, text=True).stdout, re.M)
    )
    return [places[name] for name in needed if re.match(r"lib(jpeg|turbojpeg|png|tiff|webp|gif|z\.|deflate)", name)]


def test_no_function_of_an_image_library_is_looked_up_in_the_process(library):
    libraries = codec_libraries(library)
    assert len(libraries) >= 8
    asked = symbols("--undefined-only", library)
    for path in libraries:
        assert not asked & symbols("--defined-only", path), path


def test_images_are_read_in_a_process_with_other_image_libraries(library, model, tmp_path):
    """All their functions, each of which ends the program: as with a libjpeg of another version, linked before Fovea.
    zlib is not among them: it comes with libarchive, before the others, and is the process's own."""
    libraries = [path for path in codec_libraries(library) if "libz." not in path]
    names = set().union(*(symbols("--defined-only", path) for path in libraries))
    functions = "".join(
        f'void {name}(void) {{ write(2, "{name}\\n", {len(name) + 1}); _exit(9); }}\n'
        for name in sorted(names)
        if re.fullmatch(r"[a-zA-Z]\w+", name) and not name.startswith(("LIB", "Java", "PNG", "TurboJPEG", "TURBO"))
    )
    (tmp_path / "other.c").write_text(
        f"extern long write(int, const void*, unsigned long);\nextern void _exit(int);\n{functions}void other(void) {{}}\n"
    )
    (tmp_path / "main.c").write_text(PROGRAM)
    other, program = tmp_path / "libother.so", tmp_path / "embed"
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-w", "-o", other, tmp_path / "other.c"], check=True)
    subprocess.run(
        ["cc", tmp_path / "main.c", f"-I{ROOT}/include", f"-L{tmp_path}", f"-L{library.parent}", "-lother", "-lfovea",
         f"-Wl,-rpath,{tmp_path}:{library.parent}", "-o", program], check=True,
    )  # fmt: skip
    images = []
    for ending, kind in FORMATS.items():
        images.append(tmp_path / f"photo.{ending}")
        Image.linear_gradient("L").convert("RGB").resize((60, 40)).save(images[-1], kind)
    images.append(tmp_path / "jpeg.tif")
    Image.linear_gradient("L").convert("RGB").save(images[-1], "TIFF", compression="jpeg")
    for compression in ("tiff_adobe_deflate", "lzma", "zstd", "tiff_lzw"):
        images.append(tmp_path / f"{compression}.tif")
        Image.linear_gradient("L").convert("RGB").save(images[-1], "TIFF", compression=compression)
    done = subprocess.run([program, model, *images], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.startswith("0 failed"), done.stdout


def test_a_library_alone_says_what_it_lacks(library, model, tmp_path):
    """A library without libfovea_codecs.so beside it says what is missing."""
    alone = tmp_path / "libfovea.so.0"
    alone.write_bytes(library.read_bytes())
    (tmp_path / "libfovea.so").symlink_to(alone)
    (tmp_path / "main.c").write_text(PROGRAM.replace("void other(void);", "static void other(void) {}"))
    program = tmp_path / "embed"
    subprocess.run(
        [
            "cc",
            tmp_path / "main.c",
            f"-I{ROOT}/include",
            f"-L{tmp_path}",
            "-lfovea",
            f"-Wl,-rpath,{tmp_path}",
            "-o",
            program,
        ],
        check=True,
    )
    photo = tmp_path / "photo.jpg"
    Image.new("RGB", (20, 20)).save(photo)
    done = subprocess.run([program, model, photo], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "libfovea_codecs.so" in done.stdout and "1 failed" in done.stdout
