// Search in the output of `fovea embed`: exact neighbours, near-duplicates, pages of pictures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] fovea {

/// A row and its similarity: the cosine in [-1, 1], exact to double precision.
struct Match {
  std::int64_t row = 0;
  double score = 0;

  friend bool operator==(const Match&, const Match&) = default;
};

/// The embeddings that a job wrote. They are read when they are asked for; a file that changes or
/// becomes shorter meanwhile is a fovea::Error. Rows are counted through all shards, in order.
/// Names are those of the index files: UTF-8, other bytes as \xHH, a backslash doubled.
/// Embeddings need not be normalised; a row of zeros has similarity 0 to everything.
/// Methods may be called from several threads; searches take turns.
class Collection {
 public:
  /// `path`: a folder with embeddings-NNNNN.npy and index-NNNNN.jsonl, or a single NAME.npy with
  /// NAME.index.jsonl beside it. `threads` 0: one per CPU that this process may use.
  /// Throws fovea::Error naming the file when shards are absent, malformed, do not belong together,
  /// or do not have one line in their index per row.
  explicit Collection(const std::filesystem::path& path, int threads = 0);
  ~Collection();
  Collection(Collection&&) noexcept;
  Collection& operator=(Collection&&) noexcept;

  [[nodiscard]] std::int64_t rows() const;
  /// Numbers in one embedding.
  [[nodiscard]] std::int64_t dimension() const;
  /// The model named in manifest.json, or "" without one.
  [[nodiscard]] const std::string& model() const;
  /// False when the job that writes the output has not finished, so that its last rows are absent.
  [[nodiscard]] bool is_finished() const;

  /// The name of the photo of `row`. Throws fovea::Error when the index line is malformed.
  [[nodiscard]] std::string source(std::int64_t row) const;
  /// The first row with that name, given as bytes or as in the index, if there is one.
  [[nodiscard]] std::optional<std::int64_t> find(const std::string& name) const;
  /// The first row whose photo is that file. Relative names start from `root` (the working
  /// directory when empty), and symbolic links are followed. Only names are compared that end like
  /// the path, or like the path after its links are followed.
  [[nodiscard]] std::optional<std::int64_t> find_file(const std::filesystem::path& path,
                                                      const std::filesystem::path& root = {}) const;
  /// The embedding of `row` as float [dimension()].
  [[nodiscard]] std::vector<float> embedding(std::int64_t row) const;

  /// The `k` nearest rows of each query, nearest first, rows of equal score in row order; fewer
  /// than `k` when there are not as many rows. `queries`: float [n, dimension()]. `left_out`:
  /// empty, or per query a row that it must not find (its own), -1 for none. Throws fovea::Error
  /// when a query or a row holds NaN or infinity, or a query is all zeros.
  [[nodiscard]] std::vector<std::vector<Match>> nearest(
      std::span<const float> queries, int k, std::span<const std::int64_t> left_out = {}) const;

  /// Groups of rows that are connected by pairs with a cosine of at least `threshold` (in (0, 1]),
  /// ordered by their first row; the rows of a group are in order. A member's score is its
  /// similarity to the group's first row, which may be below the threshold when a chain of others
  /// connects the two. Every pair is compared, so the time grows with the square of rows(). Throws
  /// fovea::Error when the threshold is out of range or a row holds NaN or infinity.
  [[nodiscard]] std::vector<std::vector<Match>> duplicates(double threshold) const;

 private:
  struct [[gnu::visibility("hidden")]] Impl;
  std::unique_ptr<Impl> impl_;
};

/// The form that index files give a name: UTF-8, other bytes as \xHH, a backslash doubled.
[[nodiscard]] std::string source_name(const std::string& bytes);

/// A picture on a page: its name (as in the index) and, unless it is a query, its score.
struct PagePicture {
  std::string source;
  std::optional<double> score;
  /// The picture's file, when that is not the one that its name says.
  std::filesystem::path file;
};

/// A query (or no query) above the pictures that go with it.
struct PageSection {
  std::optional<PagePicture> query;
  std::vector<PagePicture> pictures;
};

struct Page {
  std::string title;
  std::string description;
  std::vector<PageSection> sections;
};

/// Writes one self-contained HTML file, which contains its styles and small JPEGs of all pictures.
/// Pictures are read again from where they were embedded, members of archives too; relative names
/// start from `root`, or from the working directory when it is empty. An unreadable picture is
/// shown as a labelled placeholder. Returns the number of placeholders. Throws fovea::Error when
/// the file cannot be written.
std::int64_t write_page(const std::filesystem::path& path, const Page& page,
                        const std::filesystem::path& root = {}, int threads = 0);

/// The vectors of a .npy file of f32 or f16 [n, d] or [d], as float [n, d] in row-major order.
struct Vectors {
  std::int64_t rows = 0;
  std::int64_t dimension = 0;
  std::vector<float> values;
};
/// Throws fovea::Error naming the file when it cannot be read or holds another type or shape.
[[nodiscard]] Vectors read_vectors(const std::filesystem::path& path);

}  // namespace fovea
