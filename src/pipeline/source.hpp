// Source: the inputs of a job, one after the other, each with a name and the place of its bytes.
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

/// The limits on reading and decoding inputs: time, until `stop` is set, and memory. A null pool
/// limits nothing. Code that takes from both pools takes from `encoded` first, so that no two
/// threads wait for each other.
struct Limits {
  StopFlag stop{};
  MemoryPool* encoded = nullptr;  // for the bytes of encoded images
  MemoryPool* decoded = nullptr;  // for the memory of decoding: DecodeOptions::memory
  std::int64_t max_pixels = image::kPillowsMaxPixels;

  [[nodiscard]] image::DecodeOptions decoding() const {
    return {.max_pixels = max_pixels, .stop = stop, .memory = decoded};
  }
};

/// One input. Names are bytes, exactly as given or found; a tar member is "x.tar#key.jpg".
struct Item {
  enum class Kind : std::uint8_t {
    kFile,       // an encoded image in the file `name`
    kBytes,      // an encoded image in `bytes`, there after Source::load
    kEncoded,    // an encoded image in `encoded`
    kPixels,     // resized pixels, row `number` of `array`
    kImage,      // pixels of any size, `pixels`
    kSynthetic,  // pixels made from `number`
    kFailed,     // not an image; `error` says why
  };
  Kind kind = Kind::kFile;
  std::string name;
  MemoryPool::Lease memory;  // of `bytes`
  std::vector<std::byte> bytes;
  std::span<const std::byte> encoded;        // must outlive the job
  std::span<const std::uint8_t> pixels;      // uint8 [height, width, 3]
  std::shared_ptr<const io::NpyFile> array;  // uint8, its rows PixelLayout::row_shape()
  std::uint64_t number = 0;
  int width = 0;  // of the original image, for kPixels, kImage and kSynthetic
  int height = 0;
  PatchGrid grid = {};  // of a NaFlex model's kPixels: how many patches the row has
  std::optional<io::FileStamp> file =
      {};                   // see IndexLine; that of a kFile is known once it is read
  std::string sha256 = {};  // these two of pixels: see IndexLine
  bool lost_range = false;
  /// A kFailed in whose place there may have been inputs of any name: a list that breaks off. Those
  /// that an archive or a folder lost have its name before theirs.
  bool loses_names = false;
  std::string error;
};

/// Lists inputs in their order, lazily. Not thread-safe.
/// An unreadable input is an Item of kind kFailed, never an exception. A source that is damaged in
/// the middle (an archive, an index that lacks a line) gives one such item under its own name, and
/// ends. Exceptions end the job: Interrupted, ResourceError, and wrong usage of inputs.
class Source {
 public:
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// Sets `item` to the next input; false at the end. Throws Interrupted when `stop` is set while
  /// it waits or works.
  bool next(Item& item, StopFlag stop = {});

  /// Reads the bytes of the last item of next() when they do not stay reachable (tar members). They
  /// are skipped otherwise. Turns the item into kFailed when they are damaged.
  void load(Item& item, const Limits& limits = {});

 protected:
  /// `name`: the file behind this source; empty for a source that only joins others.
  /// `loses_names`: see Item; that of the failed input it becomes when it breaks.
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

/// An item of kind kFailed.
[[nodiscard]] Item failed_item(std::string name, std::string error);

/// The inputs of a job; fovea/job.hpp describes them. What folders and archives hold beside them is
/// counted in `left_out`, which is complete at the end of the source. Throws fovea::Error when an
/// input of the command line does not exist or is used wrongly.
[[nodiscard]] std::unique_ptr<Source> make_source(const InputOptions& options,
                                                  const Preprocessing& preprocessing,
                                                  LeftOut* left_out = nullptr);

/// Whether a second source of these inputs can be made: not of the standard input or a pipe.
[[nodiscard]] bool can_be_read_again(const InputOptions& options);

/// The number of inputs of this shard of the job. Nothing when they cannot be counted without
/// reading them (archives, the standard input), or when `stop` was set meanwhile.
[[nodiscard]] std::optional<std::uint64_t> count_inputs(const InputOptions& options,
                                                        const Preprocessing& preprocessing,
                                                        StopFlag stop);

// The kinds of input that make_source puts together.

/// Image files below a folder, in byte-wise order of their paths.
[[nodiscard]] std::unique_ptr<Source> make_folder_source(std::string path, FileFilter filter,
                                                         LeftOut* left_out);
/// Members of an archive. `image_key`: see InputOptions.
[[nodiscard]] std::unique_ptr<Source> make_tar_source(std::string path, std::string image_key,
                                                      FileFilter filter = {},
                                                      LeftOut* left_out = nullptr);
/// These members of an archive alone, by their names in it, whatever their endings.
[[nodiscard]] std::unique_ptr<Source> make_tar_source(std::string path,
                                                      std::unordered_set<std::string> members);
/// The images of an archive in memory, which must outlive the source.
[[nodiscard]] std::unique_ptr<Source> make_tar_source(std::string name,
                                                      std::span<const std::byte> archive,
                                                      std::string image_key);
/// Rows of a uint8 array that preprocess_job has written, with its index beside it, which is
/// optional unless the model is a NaFlex one: there it has the images' sizes.
[[nodiscard]] std::unique_ptr<Source> make_npy_source(const std::string& path,
                                                      const Preprocessing& preprocessing);

}  // namespace fovea::pipeline
