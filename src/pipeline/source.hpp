// Source: lists the inputs of a job, each with a name and the location of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/memory_pool.hpp"
#include "core/stop.hpp"
#include "fovea/job.hpp"
#include "fovea/preprocessing.hpp"
#include "image/decode.hpp"
#include "io/descriptor.hpp"
#include "io/npy.hpp"
#include "pipeline/file_filter.hpp"
#include "pipeline/left_out.hpp"

namespace fovea::pipeline {

/// The limits on reading and decoding inputs: it must end when `stop` is set, and takes its memory
/// from two pools. A null pool means no limit. Code that takes from both pools takes from `encoded`
/// first, so that no two threads wait for each other.
struct Limits {
  StopFlag stop{};
  MemoryPool* encoded = nullptr;  // for the bytes of encoded images
  MemoryPool* decoded = nullptr;  // for decoding; see DecodeOptions::memory
  std::int64_t max_pixels = image::kPillowsMaxPixels;

  [[nodiscard]] image::DecodeOptions decoding() const {
    return {.max_pixels = max_pixels, .stop = stop, .memory = decoded};
  }
};

/// One input. Names are raw bytes, as given or listed; that of a tar member is "x.tar#key.jpg".
struct Item {
  enum class Kind : std::uint8_t {
    kFile,       // an encoded image in the file `name`
    kBytes,      // an encoded image in `bytes`, which Source::load() fills
    kEncoded,    // an encoded image in `encoded`
    kPixels,     // resized pixels in row `number` of `array`
    kImage,      // decoded pixels of any size in `pixels`
    kSynthetic,  // pixels generated from `number`
    kFailed,     // not an image; `error` says why
  };
  Kind kind = Kind::kFile;
  std::string name;
  MemoryPool::Lease memory;  // for `bytes`
  std::vector<std::byte> bytes;
  std::span<const std::byte> encoded;        // must outlive the job
  std::span<const std::uint8_t> pixels;      // uint8 [height, width, 3]
  std::shared_ptr<const io::NpyFile> array;  // uint8; the shape of rows is PixelLayout::row_shape()
  std::uint64_t number = 0;
  int width = 0;  // of the original image, for kPixels, kImage and kSynthetic
  int height = 0;
  PatchGrid grid = {};  // the patches of the row, for kPixels of a NaFlex model
  // The stamp of the file, as in IndexLine; unknown for a kFile until it is read.
  std::optional<io::FileStamp> file = {};
  std::string sha256 = {};  // for kPixels, as in IndexLine
  bool lost_range = false;  // for kPixels, as in IndexLine
  /// Whether a kFailed stands for further inputs with arbitrary names, as when a list cannot be
  /// read to its end. The names of inputs in an unreadable archive or folder begin with its name
  /// instead.
  bool loses_names = false;
  std::string error;
};

/// Lists inputs lazily, in order. Not thread-safe.
/// An unreadable input is an Item of kind kFailed, never an exception. A source that turns out to
/// be damaged, such as an archive, returns one such item under its own name, and ends. Exceptions
/// end the job: Interrupted, ResourceError, and errors in the use of inputs.
class Source {
 public:
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// Sets `item` to the next input. Returns false at the end. Throws Interrupted when `stop` is
  /// set.
  bool next(Item& item, StopFlag stop = {});

  /// Reads the bytes of the last item of next() if they can be read only in order, as in a tar
  /// archive. Without this call they are skipped. Turns the item into kFailed when they are
  /// damaged.
  void load(Item& item, const Limits& limits = {});

 protected:
  /// `name`: the file that this source reads; empty for a source that only joins others.
  /// `loses_names`: Item::loses_names of the failed input that an error in the source becomes.
  explicit Source(std::string name = {}, bool loses_names = false)
      : name_(std::move(name)), loses_names_(loses_names) {}
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  virtual bool do_next(Item& item, StopFlag stop) = 0;
  virtual void do_load(Item& /*item*/, const Limits& /*limits*/) {}

  std::string name_;
  bool loses_names_;
  bool ended_ = false;
};

/// Returns an item of kind kFailed.
[[nodiscard]] Item failed_item(std::string name, std::string error);

/// Returns a source of all inputs of a job, which fovea/job.hpp describes. The files in folders and
/// archives that are not inputs are counted in `left_out`, which is complete at the end of the
/// source. Throws fovea::Error when an input of the command line does not exist or is invalid.
[[nodiscard]] std::unique_ptr<Source> make_source(const InputOptions& options,
                                                  const Preprocessing& preprocessing,
                                                  LeftOut* left_out = nullptr);

/// Returns whether the inputs can be read a second time. The standard input and pipes cannot.
[[nodiscard]] bool can_be_read_again(const InputOptions& options);

/// Returns the number of inputs of this shard of the job; nullopt when they cannot be counted
/// without reading them (archives, the standard input), or when `stop` is set.
[[nodiscard]] std::optional<std::uint64_t> count_inputs(const InputOptions& options,
                                                        const Preprocessing& preprocessing,
                                                        StopFlag stop);

// The sources that make_source() combines.

/// Returns a source of the image files below a folder, in byte-wise order of their paths.
[[nodiscard]] std::unique_ptr<Source> make_folder_source(std::string path, FileFilter filter,
                                                         LeftOut* left_out);
/// Returns a source of the images in an archive. `image_key`: see InputOptions.
[[nodiscard]] std::unique_ptr<Source> make_tar_source(std::string path, std::string image_key,
                                                      FileFilter filter = {},
                                                      LeftOut* left_out = nullptr);
/// Returns a source of those members of an archive whose names are given, with any extension.
[[nodiscard]] std::unique_ptr<Source> make_tar_source(std::string path,
                                                      std::unordered_set<std::string> members);
/// Returns a source of the images in an archive in memory, which must outlive the source.
[[nodiscard]] std::unique_ptr<Source> make_tar_source(std::string name,
                                                      std::span<const std::byte> archive,
                                                      std::string image_key);
/// Returns a source of the rows of a uint8 array that preprocess_job() has written. Its index in
/// the same folder is optional, except for a NaFlex model, which needs the sizes of the images.
[[nodiscard]] std::unique_ptr<Source> make_npy_source(const std::string& path,
                                                      const Preprocessing& preprocessing);

}  // namespace fovea::pipeline
