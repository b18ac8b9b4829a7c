// Search in the output of `fovea embed`: exact neighbours, near-duplicates, pages of pictures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] fovea {

class Encoder;  // fovea/encoder.hpp

/// A row and its similarity: the cosine in [-1, 1], exact to double precision.
struct Match {
  std::int64_t row = 0;
  double score = 0;

  friend bool operator==(const Match&, const Match&) = default;
};

/// A photo: its index entry, and the current state of its file.
struct Photo {
  std::int64_t row = -1;   ///< -1 when it is not in the collection
  std::string source;      ///< the name in the index: UTF-8, other bytes as \xHH
  std::size_t output = 0;  ///< index of its output among those searched
  int width = 0;           ///< in pixels when it was embedded; 0 when unknown
  int height = 0;
  /// Where it is, as a path from the working directory or an absolute one. A member of an archive
  /// has the name "x.tar#key.jpg".
  std::filesystem::path file;
  bool is_member = false;             ///< of an archive
  std::optional<std::int64_t> bytes;  ///< nullopt for unreadable files and for members of archives
  std::optional<std::int64_t> modified;  ///< seconds since 1970, UTC; the archive's for members
  std::string captured;                  ///< "2024-05-01 12:30:00" by the camera's clock, or ""
  /// The file, or the archive, may not be what was embedded: its size or date differs from the
  /// index, or it was written, renamed or given other rights or dates after the row was written.
  bool has_changed = false;
  /// Why the file could not be read or, if decoding was attempted, decoded; "" if there was no
  /// error.
  std::string error;
};

/// Degrees of similarity of duplicates; each includes those before it.
enum class Likeness {
  kIdenticalFile,    ///< another file of the same bytes
  kIdenticalPixels,  ///< a file that is decoded to the same pixels
  kSimilar,          ///< embeddings within the threshold
};
/// "identical file", "identical pixels", "similar".
[[nodiscard]] const char* to_string(Likeness likeness);

/// A duplicate of a kept photo.
struct Duplicate {
  Photo photo;
  double score = 0;  ///< cosine to the kept photo
  Likeness likeness = Likeness::kSimilar;
  std::int64_t same_as = -1;  ///< the row that it is a copy of; -1 for kSimilar
  std::string obstacle;       ///< why it should not be deleted; "" when it may go
};

struct DuplicateGroup {
  Photo kept;
  std::vector<Duplicate> members;  ///< the most similar first
  double lowest_score = 1;         ///< the lowest cosine of two photos of the group
};

struct DuplicateOptions {
  double threshold = 0.98;  ///< in (0, 1]; the lowest cosine to the kept photo
  /// The classes of photos to show; groups are formed by the widest of them.
  bool identical_files = true;
  bool identical_pixels = true;
  bool similar = true;
  /// Folders whose photos are kept rather than others with as many pixels; the first one counts
  /// most. Each must exist.
  std::vector<std::filesystem::path> prefer = {};
};

struct Duplicates {
  std::vector<DuplicateGroup> groups;  ///< in the order of the kept photos' rows
  std::int64_t other_names = 0;        ///< rows left out because another row has the same file
  std::int64_t not_compared = 0;       ///< photos whose files could not be read or decoded
};

/// Called while a search runs, from any of its threads, but never from two at once.
using SearchProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Whether a Collection keeps a copy of its rows in memory, in 8 bits a number. Searches use it to
/// rule out almost all rows and read only the rest from files. Results are the same either way.
enum class RowsInMemory {
  kAuto,   ///< from the second search on, when the copy takes at most half of the memory
  kNever,  ///< rows are read for every search
  kAlways  ///< the first search creates it, or throws fovea::Error without enough memory
};

struct CollectionOptions {
  int threads = 0;  ///< 0: one per CPU that this process may use
  /// Where relative names of photos start. When it is empty: in the folder where `fovea embed` ran,
  /// or the working directory when that is unknown or holds none of the photos.
  std::filesystem::path root;
  SearchProgress on_progress;
  RowsInMemory rows_in_memory = RowsInMemory::kAuto;
  /// The device on which nearest() compares: "cpu", "cuda", "cuda:N", "emu" or "auto". A GPU keeps
  /// all rows, in 8 bits a number, in its memory from the first search on, and `rows_in_memory` is
  /// ignored. `auto` uses a GPU from the second search on, if one has enough memory for the rows.
  /// Results are the same, to the last bit.
  std::string device = "cpu";
  /// Called with the device on which nearest() compares, "cpu (avx2), 2 threads", before the first
  /// search and whenever it changes.
  std::function<void(std::string_view)> on_device = {};
  /// Called with notes for the user, such as why `auto` does not use a GPU.
  std::function<void(std::string_view)> on_note = {};
};

/// The embeddings that one or several jobs wrote. They are read on demand; when a file has
/// changed or become shorter, the call throws fovea::Error. Rows are counted through all
/// outputs and shards, in order. Names are those of the index files: UTF-8, other bytes as \xHH, a
/// backslash doubled. Embeddings need not be normalised; a row of zeros has similarity 0 to
/// everything. Methods may be called from several threads; searches take turns.
class Collection {
 public:
  /// A path: a folder with embeddings-NNNNN.npy and index-NNNNN.jsonl, or a single NAME.npy with
  /// NAME.index.jsonl beside it. Throws fovea::Error naming the file when shards are absent,
  /// malformed, do not belong together, or do not have one line in their index per row, and when
  /// the outputs are of different models; and with the reason when the device that `options` name
  /// is unavailable.
  explicit Collection(const std::vector<std::filesystem::path>& paths,
                      CollectionOptions options = {});
  explicit Collection(const std::filesystem::path& path, int threads = 0);
  ~Collection();
  Collection(Collection&&) noexcept;
  Collection& operator=(Collection&&) noexcept;

  [[nodiscard]] std::int64_t rows() const;
  /// Dimension of the embeddings.
  [[nodiscard]] std::int64_t dimension() const;
  /// The model named in the first manifest.json, or "" without one. A relative path that leads to a
  /// folder from where `fovea embed` ran is made absolute.
  [[nodiscard]] const std::string& model() const;
  /// False when an output is unfinished, so that its last rows are absent.
  [[nodiscard]] bool is_finished() const;
  /// "OUT: shard 3/8 is missing" for each output that was merged from only some of a job's shards.
  [[nodiscard]] std::vector<std::string> missing_shards() const;
  [[nodiscard]] const std::vector<std::filesystem::path>& outputs() const;

  /// The name of the photo of `row`. Throws fovea::Error when the index line is malformed.
  [[nodiscard]] std::string source(std::int64_t row) const;
  /// Photo::file of `row`, without checking that the file exists. Throws as source() does.
  [[nodiscard]] std::filesystem::path file(std::int64_t row) const;
  /// The photo of `row`, with the current state of its file. Throws as source() does.
  [[nodiscard]] Photo photo(std::int64_t row) const;
  /// The first row with that name, given as raw bytes or in the index's form; nullopt if none.
  [[nodiscard]] std::optional<std::int64_t> find(const std::string& name) const;
  /// The first row whose photo is that file; symbolic links are followed. Only names with the same
  /// last component as the path, or as the path with its links resolved, are compared.
  [[nodiscard]] std::optional<std::int64_t> find_file(const std::filesystem::path& path) const;
  /// The embedding of `row` as float [dimension()].
  [[nodiscard]] std::vector<float> embedding(std::int64_t row) const;
  /// Reads the embeddings of `count` rows from `first` on into `out`, float [count, dimension()].
  /// Throws fovea::Error when the collection has no such rows, or when `out` has another size.
  void read_embeddings(std::int64_t first, std::int64_t count, std::span<float> out) const;

  /// The `k` nearest rows of each query, nearest first, rows of equal score in row order; fewer
  /// than `k` when there are not as many rows. Of rows with the same file, even under different
  /// paths, only the first is returned; rows with the same file as the excluded row are not
  /// returned. `queries`: float [n, dimension()]. `left_out`: empty, or one row per query that is
  /// excluded from its results (usually the query's own row), -1 for none. Throws fovea::Error when
  /// a query or a row holds NaN or infinity, or a query is all zeros; and when the rows do not fit
  /// into the memory of an explicitly requested GPU, with the bytes that they need.
  [[nodiscard]] std::vector<std::vector<Match>> nearest(
      std::span<const float> queries, int k, std::span<const std::int64_t> left_out = {}) const;

  /// Groups of similar photos, in each of which all but one may be deleted.
  ///
  /// Photos are taken in order: those whose file can be read before others, then more pixels, those
  /// below the folders of `prefer`, the larger file, the older one, the first row. A photo is kept
  /// unless a kept photo before it is like it; otherwise it is a member of the group of the most
  /// similar one of those. So a member is always like the kept photo of its group and after it in
  /// that order, no two photos that remain are alike, and of any two photos that are alike at least
  /// one is a member of a group. Identical files and pixels are looked for among photos whose
  /// embeddings have a cosine of at least 0.999; they are then compared by their bytes and their
  /// decoded pixels.
  ///
  /// Every pair of embeddings is compared, so the time grows with the square of rows(). Throws
  /// fovea::Error when the threshold is out of range or a row holds NaN or infinity.
  [[nodiscard]] Duplicates duplicates(const DuplicateOptions& options = {}) const;

 private:
  struct [[gnu::visibility("hidden")]] Impl;
  std::unique_ptr<Impl> impl_;
};

/// A vector that is added to all queries of a search: of a photo, or of a text to avoid.
struct QueryTerm {
  std::span<const float> vector;  ///< [dimension], of any length but 0
  double weight = 1;              ///< negative for what is to be avoided
};

/// Returns combined queries for Collection::nearest(), float [n, dimension]: each query divided by
/// its length, plus each term divided by its length and multiplied by its weight. `queries`: float
/// [n, dimension]. Sums are computed in double precision. Throws fovea::Error naming the query or
/// the term, counted from 0, when it has another dimension, holds NaN or infinity, or is all zeros,
/// when a weight is not finite, and when a query and the terms add up to zeros or to more than a
/// float holds.
[[nodiscard]] std::vector<float> combine_queries(std::span<const float> queries,
                                                 std::int64_t dimension,
                                                 std::span<const QueryTerm> terms);

/// Encodes a name as index files do: UTF-8, other bytes as \xHH, a backslash doubled.
[[nodiscard]] std::string source_name(const std::string& bytes);
/// Decodes such a name. Throws fovea::Error when it is malformed.
[[nodiscard]] std::string source_bytes(const std::string& source);
/// Returns "file:///...", percent-encoded; for a member of an archive, the URL of the archive.
[[nodiscard]] std::string file_url(const Photo& photo);

/// A picture on a page.
struct PagePicture {
  Photo photo;
  std::optional<double> score;  ///< nullopt for a query or a kept photo
  bool is_kept = false;         ///< this and the next member choose the colours
  bool is_copy = false;
  std::string label;               ///< a tag such as "identical file"
  std::vector<std::string> facts;  ///< lines of small text, such as its size and date
};

/// A section of the page: an optional query, and its pictures below.
struct PageSection {
  std::string title;
  std::string subtitle;
  std::optional<PagePicture> query;
  std::vector<PagePicture> pictures;
  /// When not empty, a vector [dimension], whose heat (Encoder::heat) is drawn over the pictures.
  std::vector<float> heat = {};
};

struct Page {
  std::string title;
  std::string description;
  std::vector<PageSection> sections;
};

/// Writes one self-contained HTML file, which contains its styles and small JPEGs of the pictures.
/// Those are read again from Photo::file, members of archives too. An unreadable picture is shown
/// as an empty, labelled box. Returns the number of such boxes. `encoder` computes the heat of
/// sections that have some. Throws fovea::Error when the file cannot be written, when there is heat
/// and no encoder, and as Encoder::heat.
std::int64_t write_page(const std::filesystem::path& path, const Page& page, int threads = 0,
                        Encoder* encoder = nullptr);

/// The vectors of a .npy file of f32 or f16 [n, d] or [d], as float [n, d] in row-major order.
struct Vectors {
  std::int64_t rows = 0;
  std::int64_t dimension = 0;
  std::vector<float> values;
};
/// Throws fovea::Error naming the file when it cannot be read or holds another type or shape.
[[nodiscard]] Vectors read_vectors(const std::filesystem::path& path);

}  // namespace fovea
