// make_source: turns the inputs of a command line into one source, in their order.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"
#include "image/target_size.hpp"
#include "io/descriptor.hpp"
#include "io/line_reader.hpp"
#include "io/text.hpp"
#include "pipeline/braces.hpp"
#include "pipeline/file_kinds.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/source.hpp"

namespace fovea::pipeline {
namespace {

bool exists(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

bool is_list(const std::string& input) {
  return input == "-" || (input.starts_with('@') && !exists(input));
}

std::string list_path(const std::string& input) {
  return input == "-" ? input : input.substr(1);
}

// The image files that a .jsonl file names, one per line.
class JsonlSource final : public Source {
 public:
  explicit JsonlSource(const std::string& path) : Source(path, true), lines_(path, '\n') {}

 private:
  bool do_next(Item& item, StopFlag stop) override {
    while (lines_.next(line_, stop)) {
      if (line_.find_first_not_of(" \t\r") == std::string::npos) {
        continue;
      }
      try {
        item = Item{};
        item.name = parse_input_line(line_);
      } catch (const Error& error) {
        item = failed_item(fmt::format("{}#{}", name(), lines_.number()), error.what());
      }
      return true;
    }
    return false;
  }

  io::LineReader lines_;
  std::string line_;
};

// Thrown while inputs are only counted, for an input that takes too long to count.
struct Uncountable {};

// Opens a name of the command line or of a list: either an image or a source of images.
class Opener {
 public:
  /// `left_out` may be null. `counting`: the inputs are only counted.
  Opener(const InputOptions& options, const Preprocessing& preprocessing, LeftOut* left_out,
         bool counting)
      : options_(options),
        filter_(options),
        preprocessing_(preprocessing),
        left_out_(left_out),
        counting_(counting) {}

  /// Returns a source for `name`; null when it is a single image, which is then in `item`.
  [[nodiscard]] std::unique_ptr<Source> open(const std::string& name, Item& item) const {
    if (name.find('\0') != std::string::npos) {
      item = failed_item(name, "the name of a file cannot contain a NUL byte");
      return nullptr;
    }
    struct stat info{};
    if (::stat(name.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return make_folder_source(name, filter_, left_out_);
    }
    if (has_tar_extension(name)) {
      if (counting_) {
        throw Uncountable{};
      }
      return make_tar_source(name, options_.image_key, filter_, left_out_);
    }
    try {
      const bool is_array = name.ends_with(".npy");
      if (is_array || name.ends_with(".jsonl")) {
        (void)io::open_regular_file(name);  // throws for pipes, which only lists can be read from
        if (is_array) {
          return make_npy_source(name, preprocessing_);
        }
        return std::make_unique<JsonlSource>(name);
      }
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      item = failed_item(name, error.what());
      item.loses_names = true;
      return nullptr;
    }
    item = Item{};
    item.name = name;
    return nullptr;
  }

 private:
  InputOptions options_;
  FileFilter filter_;
  Preprocessing preprocessing_;
  LeftOut* left_out_;
  bool counting_;
};

// Passes on the items of a source until it ends.
class NestedSource {
 public:
  void enter(std::unique_ptr<Source> source) { source_ = std::move(source); }
  [[nodiscard]] bool next(Item& item, StopFlag stop) {
    if (source_ && source_->next(item, stop)) {
      return true;
    }
    source_.reset();
    return false;
  }
  void load(Item& item, const Limits& limits) {
    if (source_) {
      source_->load(item, limits);
    }
  }

 private:
  std::unique_ptr<Source> source_;
};

// The inputs that a list names, one image file, folder or archive per line.
class ListSource final : public Source {
 public:
  ListSource(const std::string& path, bool null_separated, const Opener& opener)
      : Source(path == "-" ? "standard input" : path, true),
        path_(path),
        opener_(opener),
        null_separated_(null_separated) {}

 private:
  bool do_next(Item& item, StopFlag stop) override {
    if (!lines_) {
      lines_.emplace(path_, null_separated_ ? '\0' : '\n');
    }
    for (;;) {
      if (nested_.next(item, stop)) {
        return true;
      }
      if (!lines_->next(line_, stop)) {
        return false;
      }
      if (line_.empty()) {
        continue;
      }
      std::unique_ptr<Source> opened = opener_.open(line_, item);
      if (!opened) {
        return true;
      }
      nested_.enter(std::move(opened));
    }
  }
  void do_load(Item& item, const Limits& limits) override { nested_.load(item, limits); }

  std::string path_;
  const Opener& opener_;
  bool null_separated_;
  std::optional<io::LineReader> lines_;
  std::string line_;
  NestedSource nested_;
};

// All inputs of a job.
class InputsSource final : public Source {
 public:
  InputsSource(const InputOptions& options, const Preprocessing& preprocessing, LeftOut* left_out,
               bool counting)
      : options_(options), opener_(options_, preprocessing, left_out, counting) {
    int standard_input_count = 0;
    for (const std::string& input : options_.inputs) {
      standard_input_count += is_list(input) && list_path(input) == "-" ? 1 : 0;
      check(input, preprocessing);
    }
    if (standard_input_count > 1) {
      fail("the standard input (-) can be given only once");
    }
  }

 private:
  bool do_next(Item& item, StopFlag stop) override {
    for (;;) {
      if (nested_.next(item, stop)) {
        return true;
      }
      if (!pattern_) {
        if (input_index_ == options_.inputs.size()) {
          return false;
        }
        const std::string& input = options_.inputs[input_index_++];
        if (is_list(input)) {
          nested_.enter(
              std::make_unique<ListSource>(list_path(input), options_.null_separated, opener_));
          continue;
        }
        if (exists(input)) {  // braces in the name of an existing file are taken literally
          if (open(input, item)) {
            return true;
          }
          continue;
        }
        pattern_.emplace(input);
        pattern_index_ = 0;
      }
      if (pattern_index_ == pattern_->count()) {
        pattern_.reset();
        continue;
      }
      if (open(pattern_->name(pattern_index_++), item)) {
        return true;
      }
    }
  }

  void do_load(Item& item, const Limits& limits) override { nested_.load(item, limits); }

  // Opens a source for `name`. Returns true when it is a single image, which is then in `item`.
  bool open(const std::string& name, Item& item) {
    std::unique_ptr<Source> opened = opener_.open(name, item);
    const bool is_input = !opened;
    nested_.enter(std::move(opened));
    return is_input;
  }

  // Throws for a name that does not exist: it is probably mistyped, so the job must not begin.
  static void check(const std::string& input, const Preprocessing& preprocessing) {
    if (input.empty() || input.find('\0') != std::string::npos) {
      fail("the name of an input is empty or contains a NUL byte");
    }
    if (is_list(input)) {
      // The list is not opened, because that would disturb the writer of a named pipe.
      if (list_path(input) != "-" && ::access(list_path(input).c_str(), R_OK) != 0) {
        fail("{}: cannot read the list: {}", io::escape(list_path(input)), std::strerror(errno));
      }
      return;
    }
    if (!exists(input)) {
      const int code = errno;
      if (!BracePattern(input).has_groups()) {
        fail("{}: {}", io::escape(input), std::strerror(code));
      }
    } else if (input.ends_with(".npy")) {
      struct stat info{};
      if (::stat(input.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
        (void)make_npy_source(input, preprocessing);
      }
    }
  }

  InputOptions options_;
  Opener opener_;
  std::size_t input_index_ = 0;
  std::optional<BracePattern> pattern_;
  std::uint64_t pattern_index_ = 0;
  NestedSource nested_;
};

class SyntheticSource final : public Source {
 public:
  SyntheticSource(std::uint64_t count, const Preprocessing& preprocessing)
      : count_(count), preprocessing_(preprocessing) {}

 private:
  bool do_next(Item& item, StopFlag /*stop*/) override {
    if (number_ == count_) {
      return false;
    }
    item = Item{};
    item.kind = Item::Kind::kSynthetic;
    item.name = fmt::format("synthetic#{}", number_);
    item.number = number_++;
    item.width = preprocessing_.width;
    item.height = preprocessing_.height;
    if (preprocessing_.keeps_proportions()) {
      const image::TargetSize photo = image::typical_photo_size(item.number);
      item.width = photo.width;
      item.height = photo.height;
    }
    return true;
  }

  std::uint64_t count_;
  std::uint64_t number_ = 0;
  Preprocessing preprocessing_;
};

}  // namespace

std::unique_ptr<Source> make_source(const InputOptions& options, const Preprocessing& preprocessing,
                                    LeftOut* left_out) {
  if (options.synthetic > 0) {
    if (!options.inputs.empty()) {
      fail("synthetic images cannot be combined with inputs");
    }
    return std::make_unique<SyntheticSource>(options.synthetic, preprocessing);
  }
  if (options.inputs.empty()) {
    fail("no inputs are given: name image files, folders, lists or archives");
  }
  return std::make_unique<InputsSource>(options, preprocessing, left_out, false);
}

bool can_be_read_again(const InputOptions& options) {
  return std::ranges::none_of(options.inputs, [](const std::string& input) {
    struct stat info{};
    return is_list(input) &&
           (::stat(list_path(input).c_str(), &info) != 0 || !S_ISREG(info.st_mode));
  });
}

std::optional<std::uint64_t> count_inputs(const InputOptions& options,
                                          const Preprocessing& preprocessing, StopFlag stop) {
  const auto shard_size = [&](std::uint64_t all) {
    return all / options.shard_count + (options.shard_index < all % options.shard_count ? 1 : 0);
  };
  if (options.synthetic > 0) {
    return shard_size(options.synthetic);
  }
  if (!can_be_read_again(options)) {
    return std::nullopt;  // the list is a pipe, which only the job may read
  }
  try {
    InputsSource source(options, preprocessing, nullptr, true);
    Item item;
    std::uint64_t all = 0;
    while (source.next(item, stop)) {
      ++all;
    }
    return shard_size(all);
  } catch (const Uncountable&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // stopped, or an error that the job itself will report
  }
}

}  // namespace fovea::pipeline
