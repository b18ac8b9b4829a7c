// Tables of file kinds by extension and by name.
#include "pipeline/file_kinds.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "core/text.hpp"

namespace fovea::pipeline {
namespace {

struct KindRow {
  std::string_view kind;   // empty: each name is its own kind
  std::string_view names;  // in lower case, with separators between them
};

constexpr KindRow kExtensionKinds[] = {
    {kImageKind,  // a line per format, including the extensions of stereo pairs and panoramas
     "jpg jpeg jpe jfif jfi jif pjpeg pjp mpo jps insp "
     "png apng pns "
     "webp gif bmp dib "
     "tif tiff btf tf8 "
     "heic heif hif avif"},
    // Camera raw formats.
    {kImageKind,
     "3fr arw cr2 cr3 crw dcr dng erf fff gpr iiq k25 kdc mef mos mrw nef nrw orf ori pef raf rw2 "
     "rwl sr2 srf srw x3f"},
    // Image formats that Fovea does not read; each is reported by its own extension.
    {"",
     "svg svgz psd psb jxl jp2 j2k jpx jpf ico icns exr hdr eps ai xcf kra tga dds pcx ppm pgm pbm "
     "pnm wmf emf djvu heics avifs"},
    {"video",
     "mp4 m4v mov avi mkv webm mpg mpeg m2v mts m2ts 3gp 3g2 wmv asf flv f4v ogv vob mxf insv 360 "
     "lrv dv rm rmvb"},
    {"audio", "mp3 m4a m4b wav flac ogg oga opus aac wma aif aiff amr mid midi"},
    {"sidecars", "xmp aae thm pp3 dop vrd on1 exif pto"},
    {"", "json xml txt"},
    {"documents",
     "pdf doc docx odt rtf xls xlsx ods ppt pptx odp epub mobi pages numbers key md htm html tex "
     "ps"},
    {kArchiveKind,
     "tar tgz tbz2 txz tzst gz bz2 xz zst zip 7z rar cbz cbr iso dmg"},  // "gz" covers .tar.gz
    {"data",
     "csv tsv jsonl ndjson parquet arrow npy npz h5 hdf5 db sqlite sqlite3 lrcat pkl pt pth "
     "safetensors"},
};

// Whole names of files. file_kind() adds the resource forks "._x" of macOS.
constexpr KindRow kFileKinds[] = {
    {kSystemKind,
     "thumbs.db ehthumbs.db desktop.ini picasa.ini .picasa.ini .ds_store .localized .nomedia "
     ".directory icon\r zbthumbnail.info"},
};

// Names of folders that operating systems and storage devices create, separated by '/'.
constexpr KindRow kFolderKinds[] = {
    {kThumbnailKind, "@eadir/@__thumb/.@__thumb/.thumbnails/.thumbs"},
    {kDeletedKind, "#recycle/@recycle/$recycle.bin/.trash/.trashes"},
    {kSystemKind, "lost+found/system volume information/__macosx"},
};

using KindByName = std::unordered_map<std::string_view, std::string_view>;

template <std::size_t rows>
KindByName kinds_by_name(const KindRow (&table)[rows], char separator) {
  KindByName kinds;
  for (const KindRow& row : table) {
    for (std::string_view rest = row.names; !rest.empty();) {
      const std::string_view name = rest.substr(0, rest.find(separator));
      kinds.emplace(name, row.kind.empty() ? name : row.kind);
      rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    }
  }
  return kinds;
}

std::string_view find(const KindByName& kinds, const std::string& name) {
  const auto entry = kinds.find(name);
  return entry == kinds.end() ? "" : entry->second;
}

}  // namespace

std::string_view file_kind(std::string_view name) {
  static const KindByName endings = kinds_by_name(kExtensionKinds, ' ');
  static const KindByName files = kinds_by_name(kFileKinds, ' ');
  if (name.starts_with("._")) {
    return kSystemKind;
  }
  const std::string lower = lower_case(name);
  if (const std::string_view kind = find(files, lower); !kind.empty()) {
    return kind;
  }
  const std::size_t dot = lower.find_last_of('.');
  const std::string_view kind =
      dot == std::string::npos ? "" : find(endings, lower.substr(dot + 1));
  return kind.empty() ? kOtherKind : kind;
}

std::string_view folder_kind(std::string_view name) {
  static const KindByName folders = kinds_by_name(kFolderKinds, '/');
  return find(folders, lower_case(name));
}

bool has_tar_extension(std::string_view name) {
  constexpr std::array<std::string_view, 9> kExtensions{
      ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst"};
  const std::string tail =
      lower_case(name.substr(name.size() - std::min<std::size_t>(8, name.size())));
  return std::ranges::any_of(kExtensions, [&](std::string_view e) { return tail.ends_with(e); });
}

}  // namespace fovea::pipeline
