// Jobs over many images: they turn photos into folders of embeddings or arrays of pixels.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/encoder.hpp"
#include "fovea/features.hpp"

namespace [[gnu::visibility("default")]] fovea {

/// The images that a job works on, in order.
struct InputOptions {
  /// Each is one of: an image file; a folder (the files below it that end like images, in byte-wise
  /// order of their paths); a webdataset archive (`.tar`, or compressed: `.tar.gz`, `.tgz`,
  /// `.tar.zst`,
  /// ...); a `.jsonl` file (an object per line with "path" or "image", or "source" as in Fovea's
  /// own index and error files); a `.npy` array of pixels written by preprocess_job; `@list.txt`
  /// (an image file, folder or archive per line); `-` (the same from the standard input). Brace
  /// ranges and alternatives (`x-{00000..00099}.tar`, `{a,b}.tar`) are expanded unless a file has
  /// that very name. Relative names are relative to the working directory. Names are bytes.
  std::vector<std::string> inputs = {};
  /// Names in lists end with a NUL byte instead of a newline.
  bool null_separated = false;
  /// Archive members to take: extensions after the first dot of the name, separated by ';', such
  /// as "jpg;png". Empty: every member whose last extension is that of an image.
  std::string image_key = {};
  /// Also read, below folders and in archives, names that begin with a dot, and folders in which
  /// systems keep thumbnails or deleted files (docs/output.md lists them).
  bool hidden = false;
  /// Patterns of names to leave out below folders and in archives, and of the only names to take;
  /// names that match both are left out. `*`, `?` and `[a-z]` match within a name, whatever the
  /// case of its letters; `{a,b}` expands. A pattern without a slash matches names at any depth.
  /// One with a slash matches paths relative to the folder that was given, where `**` stands for
  /// any number of folders; one that ends in a slash matches folders only. A folder that matches
  /// stands for all its files. An input that is itself in `inputs` is always read.
  std::vector<std::string> exclude = {};
  std::vector<std::string> include = {};
  /// Images with more pixels fail before memory is allocated for them; 0: Pillow's limit,
  /// 178,956,970.
  std::int64_t max_pixels = 0;
  /// Only the inputs i with i % shard_count == shard_index are used, counted from 0.
  std::uint64_t shard_index = 0;
  std::uint64_t shard_count = 1;
  /// When not 0: this many generated images, which need no decoding, instead of `inputs`.
  std::uint64_t synthetic = 0;
};

/// Numbers of files by kind: "video", "documents", "hidden", ...; docs/output.md lists the kinds.
using FileCounts = std::map<std::string, std::uint64_t, std::less<>>;

/// Counts for messages, the most frequent kind first: "3 video, 2 json, 1 archive".
[[nodiscard]] std::string describe(const FileCounts& files);

enum class OutputFormat : std::uint8_t { kNpy, kJsonl };

/// The progress of a running job.
struct JobProgress {
  /// Images done, including those of earlier runs on this output, and those of the batch that is
  /// being computed, which a later interruption drops.
  std::uint64_t rows = 0;
  std::uint64_t failed = 0;    ///< failed inputs, including those of earlier runs
  std::uint64_t new_rows = 0;  ///< images done by this run
  std::optional<std::uint64_t>
      total_inputs;                    ///< known once they are counted; never for some inputs
  double seconds = 0;                  ///< since the start of this run
  double images_per_second = 0;        ///< the rate of the last seconds
  std::optional<double> seconds_left;  ///< an estimate, when `total_inputs` is known
  /// Shares of this run's time, in [0, 1], that went into waiting for decoded images, computing,
  /// and waiting for the writer. They add up to about 1, except at the start.
  double decode_share = 0;
  double compute_share = 0;
  double write_share = 0;
};

/// An input that could not be used.
struct JobFailure {
  std::string source;  ///< its name, as in errors.jsonl (UTF-8, escaped)
  std::string error;
};

/// Callbacks of a job, and the flag that stops it. All members are optional.
struct JobControl {
  /// Called every `progress_interval`, from a thread of the job.
  std::function<void(const JobProgress&)> on_progress;
  std::chrono::milliseconds progress_interval{500};
  /// Called once per failed input, in input order, from a thread of the job.
  std::function<void(const JobFailure&)> on_failure;
  /// Called once, before the first image is computed, with the device ("cpu (...)").
  std::function<void(std::string_view)> on_device;
  /// Called with notes for the user, for example that the memory of the device ran short.
  std::function<void(std::string_view)> on_note;
  /// Set to true (a signal handler may do that) to end the job within two seconds: images that are
  /// being decoded or computed are dropped, and done again when the job resumes.
  const std::atomic<bool>* stop = nullptr;
};

struct EmbedOptions {
  InputOptions input;
  /// A folder in Hugging Face layout or the name of a cached model, as Encoder takes it.
  std::string model;
  EncoderOptions encoder;
  /// A folder (docs/output.md), which is made when it does not exist; or a file ending in .npy,
  /// which then holds every row, with OUT.index.jsonl and OUT.errors.jsonl beside it. A job with
  /// such a file cannot be resumed.
  std::string output;
  int batch_size = 0;      ///< images computed together; 0: Encoder::preferred_batch()
  int decode_threads = 0;  ///< 0: one per CPU that this process may use
  /// Bytes that the images being read and decoded may take together; 0: half of the memory that
  /// this process may use, but at most 1 GiB or 64 MiB per decode thread, whichever is larger. A
  /// quarter of it is for encoded files. An image that needs more than all of it fails.
  std::uint64_t decode_memory = 0;
  bool normalize = true;  ///< scale every embedding to length 1
  /// Writes these features instead of embeddings, unscaled, in rows [tokens, hidden], or [hidden]
  /// for pooled features. Not possible in the format kJsonl, nor for tokens of a NaFlex model,
  /// whose images have different numbers of them.
  std::optional<FeatureLayer> features;
  OutputDType dtype = OutputDType::kF32;
  OutputFormat format = OutputFormat::kNpy;
  /// Rows per embeddings file. Nullopt: 65536 or, for features of tokens, as many as fit into
  /// 256 MiB.
  std::optional<std::uint64_t> shard_rows;
  std::optional<std::uint64_t> max_errors;  ///< more failed inputs end the job with an Error
  /// Discard the contents of the folder OUT and start again; replace a file that Fovea did not
  /// write.
  bool overwrite = false;
  bool retry_failed = false;  ///< try the inputs in OUT/errors.jsonl again
  /// Updates OUT to the current inputs: rows of photos that are new are added, those of changed
  /// photos are computed again, those of photos that are gone are dropped, and all others keep
  /// their bytes (docs/output.md). Has no effect when there is no output yet.
  bool update = false;
  /// Writes the SHA-256 of every image's file into the index; with `update`, photos are compared by
  /// it, and not by their sizes and dates.
  bool checksum = false;
  /// When an update would drop more rows, it ends with an Error and changes nothing.
  std::optional<std::uint64_t> max_drop;
  JobControl control;
};

struct EmbedTextsJob {
  std::string model;  ///< as for Encoder
  EncoderOptions encoder;
  std::vector<std::string> texts;
  TextClean clean = TextClean::kAuto;
  std::string output;  ///< a file ending in .npy
  bool normalize = true;
  OutputDType dtype = OutputDType::kF32;
  bool overwrite = false;  ///< replace a file that Fovea did not write
  JobControl control;
};

struct PreprocessOptions {
  InputOptions input;
  std::string model;
  std::string output;               ///< a file ending in .npy
  int decode_threads = 0;           ///< as in EmbedOptions
  std::uint64_t decode_memory = 0;  ///< as in EmbedOptions
  std::optional<std::uint64_t> max_errors;
  bool overwrite = false;  ///< replace a file that Fovea did not write
  JobControl control;
};

/// The rows that an update changed. All but `dropped` add up to the rows of the output.
struct UpdateCounts {
  std::uint64_t added = 0;       ///< new photos
  std::uint64_t reembedded = 0;  ///< photos that had changed
  std::uint64_t dropped = 0;     ///< photos that are gone, or can no longer be read
  std::uint64_t unchanged = 0;
  /// Added or re-embedded rows that were copied from a row of the same content
  /// (EmbedOptions::checksum), as of a photo that was renamed.
  std::uint64_t not_computed = 0;

  friend bool operator==(const UpdateCounts&, const UpdateCounts&) = default;
};

struct JobReport {
  std::uint64_t rows = 0;      ///< rows in the output
  std::uint64_t new_rows = 0;  ///< rows added by this run
  std::uint64_t failed = 0;    ///< inputs listed as failed
  /// Inputs among `failed` that did not fail before the update, or failed for another reason. The
  /// others are not reported to JobControl::on_failure.
  std::uint64_t newly_failed = 0;
  /// The other files that the folders and archives among the inputs hold, for all shards and parts
  /// of the inputs. Empty when the run was interrupted.
  FileCounts left_out;
  /// Rows of images whose values were clipped, because they had more than 8 bits per channel in
  /// certain formats (docs/images.md).
  std::uint64_t images_with_lost_range = 0;
  /// Set when the output was updated without interruption.
  std::optional<UpdateCounts> update = {};
  bool resumed = false;       ///< an earlier run had begun this output
  bool already_done = false;  ///< an earlier run had finished it, so nothing was computed
  bool interrupted = false;   ///< JobControl::stop ended it; run the same job again to resume
  double seconds = 0;         ///< from the call to the last file in place
  double images_per_second = 0;
  double decode_share = 0;  ///< see JobProgress
  double compute_share = 0;
  double write_share = 0;
  double decode_utilisation = 0;  ///< busy share of the decode threads, in [0, 1]
};

/// Throws fovea::Error when `output` cannot be what a job writes, by its name alone: a folder, or
/// one file ending in .npy; or only the latter. The jobs below check it, too.
void check_output_name(const std::string& output, bool only_array);

/// Returns the kind of a file by the ending of its name, as in "left_out" of manifest.json:
/// "image", "video", "json"; "other" when the ending is unknown.
[[nodiscard]] std::string_view kind_by_name(std::string_view name);
/// Whether these are the first bytes of a supported image format.
[[nodiscard]] bool begins_as_image(std::span<const std::byte> head);

/// Embeds every input and writes the files of docs/output.md. An input that fails is listed and has
/// no row; the rows of the others stay in input order. An unfinished output of the same job is
/// resumed, and its files have the same bytes as without the interruption. Throws fovea::Error when
/// the job cannot continue (model, device, a full disk, another job's output); the same job can
/// resume what is written by then.
[[nodiscard]] JobReport embed_job(const EmbedOptions& options);

/// Embeds texts and writes one array, `output`, of a row per text, with `<output without
/// .npy>.index.jsonl` beside it, in which a text is the "source" of its row. Files appear when the
/// job is done. Throws fovea::Error as Encoder::embed_texts and embed_job do.
[[nodiscard]] JobReport embed_texts_job(const EmbedTextsJob& options);

/// Writes only the resized pixels, uint8 [n, height, width, 3] in input order, to `output`, with
/// `<output without .npy>.index.jsonl` (a line per row) and `.errors.jsonl` beside it. Files appear
/// when the job is done. Throws fovea::Error as embed_job does.
[[nodiscard]] JobReport preprocess_job(const PreprocessOptions& options);

}  // namespace fovea
