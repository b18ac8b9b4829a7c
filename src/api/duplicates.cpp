// Collection::duplicates: finds candidates by their embeddings, tells copies by comparing files,
// and groups both.
#include "api/duplicates.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "api/read_photos.hpp"
#include "core/error.hpp"
#include "image/decode.hpp"
#include "io/digest.hpp"
#include "io/text.hpp"
#include "search/cosine.hpp"
#include "search/pairs.hpp"

namespace fovea {
namespace {

namespace fs = std::filesystem;

// Photos with equal pixels have equal embeddings, up to rounding.
constexpr double kNearlyEqual = 0.999;

// The folders whose photos are preferred as the kept ones.
class PreferredFolders {
 public:
  explicit PreferredFolders(const std::vector<fs::path>& folders) {
    for (const fs::path& folder : folders) {
      std::error_code error;
      if (!fs::is_directory(folder, error)) {
        fail("{}: not a folder; expected a folder whose photos are kept",
             io::escape(folder.native()));
      }
      folders_.push_back(
          {normalized(fs::absolute(folder)), normalized(fs::weakly_canonical(folder, error))});
    }
  }

  /// Returns the index of the first folder that contains the photo, by its name or after resolving
  /// links.
  [[nodiscard]] std::size_t rank(const Photo& photo) const {
    if (folders_.empty()) {
      return 0;
    }
    std::error_code error;
    const fs::path named = normalized(fs::absolute(photo.file));
    const fs::path real = fs::weakly_canonical(photo.file, error);
    const auto holds = [&](const Folder& folder) {
      return is_below(named, folder.named) || is_below(real, folder.real);
    };
    return static_cast<std::size_t>(std::ranges::find_if(folders_, holds) - folders_.begin());
  }

 private:
  struct Folder {
    fs::path named;
    fs::path real;
  };

  // Returns the path without ".", ".." and a trailing '/'.
  static fs::path normalized(const fs::path& path) {
    const fs::path normal = path.lexically_normal();
    return normal.has_filename() ? normal : normal.parent_path();
  }
  static bool is_below(const fs::path& path, const fs::path& folder) {
    return std::ranges::mismatch(path, folder).in2 == folder.end();
  }

  std::vector<Folder> folders_;
};

// The order in which photos are preferred; the smaller one comes first.
auto preference(const Photo& photo, std::size_t rank) {
  return std::tuple(!photo.error.empty(), -static_cast<std::int64_t>(photo.width) * photo.height,
                    rank, -photo.bytes.value_or(-1),
                    photo.modified.value_or(std::numeric_limits<std::int64_t>::max()), photo.row);
}

// What is known about the contents of a photo's file. Equal strings mean equal contents; "" means
// unknown.
struct Contents {
  std::string bytes;
  std::string pixels;
  std::string error;        // why the file could not be read
  std::string undecodable;  // why the file was read but could not be decoded
};

std::string byte_digest(std::span<const std::byte> bytes) {
  io::Digest digest;
  digest.add(bytes);
  return digest.hex();
}

// Decodes a photo; returns the reason of a failure, or "".
std::string decode_error(const EncodedPhoto& encoded,
                         const std::function<void(const image::Image& photo)>& use = {}) {
  try {
    const image::Image photo = image::decode(encoded.bytes, encoded.decoding);
    if (use) {
      use(photo);
    }
    return "";
  } catch (const Error& problem) {
    rethrow_unless_finding(problem);
    return problem.what();
  }
}

std::string pixel_digest(const image::Image& photo) {
  io::Digest digest;
  digest.add(fmt::format("{}x{}:", photo.width, photo.height));
  digest.add(std::as_bytes(photo.pixels.span()));
  return digest.hex();
}

// A photo that may be a copy of another photo in its group.
struct Candidate {
  const Photo* photo = nullptr;
  std::size_t group = 0;
  bool is_near = true;  // its embedding is nearly equal to another one in the group
  Contents contents;
};

// Reads the files needed to tell which photos are copies of each other.
class Comparison {
 public:
  Comparison(std::vector<Candidate>& candidates, ThreadPool& pool)
      : candidates_(candidates), pool_(pool) {}

  // Only files of equal size can be equal. The size of an archive member is known only after
  // reading.
  void compare_bytes() {
    std::map<std::pair<std::size_t, std::int64_t>, std::vector<Candidate*>> by_size;
    std::set<std::size_t> groups_with_members;
    std::vector<Candidate*> candidates_to_read;
    for (Candidate& candidate : candidates_) {
      const Photo& photo = *candidate.photo;
      if (!photo.error.empty()) {
        candidate.contents.error = photo.error;
      } else if (photo.is_member) {
        candidates_to_read.push_back(&candidate);
        groups_with_members.insert(candidate.group);
      } else {
        by_size[{candidate.group, photo.bytes.value_or(0)}].push_back(&candidate);
      }
    }
    for (const auto& [key, list] : by_size) {
      if (list.size() > 1 || groups_with_members.contains(key.first)) {
        candidates_to_read.insert(candidates_to_read.end(), list.begin(), list.end());
      } else {
        list.front()->contents.bytes = fmt::format("row {}", list.front()->photo->row);
      }
    }
    read(candidates_to_read, [](Contents& contents, const EncodedPhoto& encoded) {
      contents.bytes = byte_digest(encoded.bytes);
    });
  }

  // Requires compare_bytes(). Of several equal files only one is decoded, and only if its group has
  // other files of the same width and height. A file that cannot be decoded equals no other file.
  void compare_pixels() {
    std::map<std::tuple<std::size_t, int, int>, std::map<std::string, Candidate*>> by_shape;
    for (Candidate& candidate : candidates_) {
      candidate.contents.pixels = candidate.contents.bytes;
      if (candidate.is_near && candidate.contents.error.empty()) {
        const Photo& photo = *candidate.photo;
        by_shape[{candidate.group, photo.width, photo.height}].emplace(candidate.contents.bytes,
                                                                       &candidate);
      }
    }
    std::vector<Candidate*> candidates_to_read;
    for (const auto& [shape, files] : by_shape) {
      for (const auto& [bytes, candidate] : files) {
        if (files.size() > 1) {
          candidates_to_read.push_back(candidate);
        }
      }
    }
    read(candidates_to_read, [](Contents& contents, const EncodedPhoto& encoded) {
      contents.undecodable = decode_error(
          encoded, [&](const image::Image& photo) { contents.pixels = pixel_digest(photo); });
    });
    std::unordered_map<std::string, const Contents*> decoded;
    for (const Candidate* candidate : candidates_to_read) {
      decoded.emplace(candidate->contents.bytes, &candidate->contents);
    }
    for (Candidate& candidate : candidates_) {
      if (const auto found = decoded.find(candidate.contents.bytes); found != decoded.end()) {
        candidate.contents.pixels = found->second->pixels;
        candidate.contents.undecodable = found->second->undecodable;
      }
    }
  }

 private:
  template <typename Use>
  void read(const std::vector<Candidate*>& candidates_to_read, const Use& store) {
    std::vector<std::filesystem::path> paths;
    paths.reserve(candidates_to_read.size());
    for (const Candidate* candidate : candidates_to_read) {
      paths.push_back(candidate->photo->file);
    }
    read_photos(paths, pool_, [&](std::size_t index, const EncodedPhoto& encoded) {
      Contents& contents = candidates_to_read[index]->contents;
      contents.error = encoded.error;
      if (encoded.error.empty()) {
        store(contents, encoded);
      }
    });
  }

  std::vector<Candidate>& candidates_;
  ThreadPool& pool_;
};

// Whether the member's file has the same bytes as the kept photo's file, as compared in this run.
bool is_copy_of_kept(const Photo& kept, const Duplicate& member) {
  return member.likeness == Likeness::kIdenticalFile && member.same_as == kept.row;
}

// Returns why a photo should not be deleted; "" when it may be, provided that the kept photo can be
// decoded or has the same bytes.
std::string deletion_obstacle(const Photo& kept, const Duplicate& member,
                              const Contents& contents) {
  const Photo& photo = member.photo;
  if (photo.is_member) {
    return "it is in an archive";
  }
  if (!photo.error.empty()) {
    return "its file cannot be read: " + photo.error;
  }
  if (!kept.error.empty()) {
    return "the file of the kept photo cannot be read: " + kept.error;
  }
  if (is_copy_of_kept(kept, member)) {
    return "";
  }
  if (!contents.undecodable.empty()) {
    return "its file cannot be decoded: " + contents.undecodable;
  }
  // Files that were compared in this run are copies, even if they changed since they were embedded.
  if (member.same_as != kept.row && (photo.has_changed || kept.has_changed)) {
    return fmt::format("{} has changed since it was embedded",
                       photo.has_changed ? "its file" : "the file of the kept photo");
  }
  return "";
}

class DuplicateSearch {
 public:
  DuplicateSearch(const CollectionParts& parts, const DuplicateOptions& options)
      : parts_(parts),
        options_(options),
        preferred_(options.prefer),
        lengths_(search::measure_lengths(parts.shards, parts.pool)) {}

  Duplicates run() {
    const double min_cosine = options_.similar ? options_.threshold : kNearlyEqual;
    load_photos(search::rows_with_partners(parts_.shards, parts_.pool, lengths_, min_cosine,
                                           parts_.on_progress));
    if (options_.similar) {
      group_by_embeddings();
    } else {
      group_by_contents();
    }
    decode_kept();
    std::ranges::sort(result_.groups, {}, [](const DuplicateGroup& g) { return g.kept.row; });
    return std::move(result_);
  }

 private:
  // Sorts the photos of these rows by preference, and drops additional names of the same file.
  void load_photos(const std::vector<std::int64_t>& rows) {
    photos_.resize(rows.size());
    parts_.pool.parallel_for(rows.size(), [&](std::size_t index, int) {
      photos_[index] = parts_.files.load_photo(rows[index]);
    });
    std::unordered_set<std::string> files;
    std::unordered_map<std::string, std::int64_t> device_independent;
    std::erase_if(photos_, [&](const Photo& photo) {
      FileIdentity identity = file_identity(photo);
      if (!files.insert(std::move(identity.file)).second) {
        return true;
      }
      if (!identity.device_independent.empty()) {
        const auto [other, is_new] =
            device_independent.emplace(std::move(identity.device_independent), photo.row);
        if (!is_new) {
          possible_aliases_.insert({other->second, photo.row});
        }
      }
      return false;
    });
    result_.other_names = static_cast<std::int64_t>(rows.size() - photos_.size());
    std::unordered_map<std::int64_t, std::size_t> ranks;
    for (const Photo& photo : photos_) {
      ranks[photo.row] = preferred_.rank(photo);
    }
    std::ranges::sort(photos_, {},
                      [&](const Photo& photo) { return preference(photo, ranks[photo.row]); });
    for (std::size_t index = 0; index < photos_.size(); ++index) {
      order_[photos_[index].row] = index;
    }
  }

  // Groups photos by the cosines of their embeddings, then compares the files within each group.
  void group_by_embeddings() {
    std::vector<std::int64_t> order;
    std::unordered_map<std::int64_t, const Photo*> photos_by_row;
    for (const Photo& photo : photos_) {
      order.push_back(photo.row);
      photos_by_row[photo.row] = &photo;
    }
    const std::vector<search::Group> groups =
        search::group_rows(parts_.shards, parts_.pool, lengths_, options_.threshold, order);
    std::vector<double> lowest;
    std::vector<double> scores;
    for (std::size_t index = 0; index < groups.size(); ++index) {
      std::vector<std::int64_t> rows{groups[index].kept};
      scores.push_back(1);
      for (const Match& member : groups[index].members) {
        rows.push_back(member.row);
        scores.push_back(member.score);
      }
      const search::PairsWithin pairs = compare(rows);
      lowest.push_back(pairs.min_cosine);
      for (std::size_t number = 0; number < rows.size(); ++number) {
        candidates_.push_back(
            {photos_by_row[rows[number]], index, pairs.nearly_equal_rows[number], {}});
      }
    }
    compare_files();
    for (std::size_t first = 0; first < candidates_.size();) {
      const std::size_t group = candidates_[first].group;
      const std::size_t count = groups[group].members.size() + 1;
      add_group(std::span(candidates_).subspan(first, count),
                std::span(scores).subspan(first, count), lowest[group]);
      first += count;
    }
  }

  // Groups photos with equal files or equal pixels.
  void group_by_contents() {
    for (const Photo& photo : photos_) {
      candidates_.push_back({&photo, 0, true, {}});
    }
    compare_files();
    std::unordered_map<std::string, std::vector<Candidate>> groups;
    for (const Candidate& candidate : candidates_) {  // in order, so that the first one is kept
      const Contents& contents = candidate.contents;
      if (contents.error.empty()) {
        groups[options_.identical_pixels ? contents.pixels : contents.bytes].push_back(candidate);
      }
    }
    search::RowReader reader(parts_.shards);
    for (const auto& [unused, group] : groups) {
      if (group.size() > 1) {
        std::vector<std::int64_t> rows;
        std::vector<double> scores;
        const std::vector<float> kept = reader.row(group.front().photo->row);
        for (const Candidate& candidate : group) {
          rows.push_back(candidate.photo->row);
          scores.push_back(search::cosine(kept, squared_length(rows.front()),
                                          reader.row(rows.back()), squared_length(rows.back())));
        }
        add_group(group, scores, compare(rows).min_cosine);
      }
    }
  }

  void compare_files() {
    Comparison comparison(candidates_, parts_.pool);
    comparison.compare_bytes();
    if (options_.similar || options_.identical_pixels) {
      comparison.compare_pixels();
    }
    result_.not_compared = std::ranges::count_if(candidates_, [](const Candidate& candidate) {
      return !candidate.contents.error.empty() || !candidate.contents.undecodable.empty();
    });
  }

  // Adds the photos to be reported; the first one is kept.
  void add_group(std::span<const Candidate> candidates, std::span<const double> scores,
                 double lowest) {
    // The most preferred photo of each set of copies.
    std::unordered_map<std::string, const Photo*> files;
    std::unordered_map<std::string, const Photo*> pixels;
    std::vector<const Candidate*> order;
    for (const Candidate& candidate : candidates) {
      order.push_back(&candidate);
    }
    std::ranges::sort(order, {}, [this](const Candidate* c) { return order_[c->photo->row]; });
    for (const Candidate* candidate : order) {
      if (candidate->contents.error.empty()) {
        files.emplace(candidate->contents.bytes, candidate->photo);
        pixels.emplace(candidate->contents.pixels, candidate->photo);
      }
    }
    DuplicateGroup group{*candidates.front().photo, {}, lowest};
    read_capture_date(group.kept);
    const Contents& kept = candidates.front().contents;
    set_error(group.kept, kept.error);
    for (std::size_t index = 1; index < candidates.size(); ++index) {
      const Candidate& candidate = candidates[index];
      Duplicate member{*candidate.photo, scores[index], Likeness::kSimilar, -1, {}};
      if (candidate.contents.error.empty()) {
        const Photo* const file = files[candidate.contents.bytes];
        const Photo* const same = pixels[candidate.contents.pixels];
        if (file != candidate.photo) {
          member.likeness = Likeness::kIdenticalFile;
          member.same_as = file->row;
        } else if (same != candidate.photo && !candidate.contents.pixels.empty()) {
          member.likeness = Likeness::kIdenticalPixels;
          member.same_as = same->row;
        }
      }
      if (is_shown(member.likeness)) {
        read_capture_date(member.photo);
        set_error(member.photo, candidate.contents.error);
        member.obstacle =
            possible_aliases_.contains(member.photo.row)
                ? "it may be the same file as another photo, reached through another mount"
                : deletion_obstacle(group.kept, member, candidate.contents);
        set_error(member.photo, candidate.contents.undecodable);
        group.members.push_back(std::move(member));
      }
    }
    set_error(group.kept, kept.undecodable);
    if (group.members.empty()) {
      return;
    }
    if (group.members.size() + 1 < candidates.size()) {
      std::vector<std::int64_t> rows{group.kept.row};
      for (const Duplicate& member : group.members) {
        rows.push_back(member.photo.row);
      }
      group.lowest_score = compare(rows).min_cosine;
    }
    result_.groups.push_back(std::move(group));
  }

  // Decodes the kept photos of groups in which a deletable photo has other bytes: the photo that
  // remains must be readable as an image.
  void decode_kept() {
    const auto relies_on_kept = [](const DuplicateGroup& group, const Duplicate& member) {
      return member.obstacle.empty() && !is_copy_of_kept(group.kept, member);
    };
    std::vector<DuplicateGroup*> groups;
    std::vector<std::filesystem::path> paths;
    for (DuplicateGroup& group : result_.groups) {
      if (std::ranges::any_of(group.members,
                              [&](const Duplicate& m) { return relies_on_kept(group, m); })) {
        groups.push_back(&group);
        paths.push_back(group.kept.file);
      }
    }
    read_photos(paths, parts_.pool, [&](std::size_t index, const EncodedPhoto& encoded) {
      const bool is_readable = encoded.error.empty();
      const std::string problem = is_readable ? decode_error(encoded) : encoded.error;
      if (problem.empty()) {
        return;
      }
      DuplicateGroup& group = *groups[index];
      set_error(group.kept, problem);
      for (Duplicate& member : group.members) {
        if (relies_on_kept(group, member)) {
          member.obstacle = fmt::format("the file of the kept photo cannot be {}: {}",
                                        is_readable ? "decoded" : "read", problem);
        }
      }
    });
  }

  static void set_error(Photo& photo, const std::string& error) {
    if (photo.error.empty()) {
      photo.error = error;
    }
  }

  [[nodiscard]] bool is_shown(Likeness likeness) const {
    return likeness == Likeness::kSimilar         ? options_.similar
           : likeness == Likeness::kIdenticalFile ? options_.identical_files
                                                  : options_.identical_pixels;
  }

  [[nodiscard]] search::PairsWithin compare(const std::vector<std::int64_t>& rows) const {
    return search::compare_within(parts_.shards, parts_.pool, lengths_, rows, kNearlyEqual);
  }

  [[nodiscard]] double squared_length(std::int64_t row) const {
    return lengths_.squared[static_cast<std::size_t>(row)];
  }

  const CollectionParts& parts_;
  const DuplicateOptions& options_;
  PreferredFolders preferred_;
  search::Lengths lengths_;
  std::vector<Photo> photos_;
  std::unordered_map<std::int64_t, std::size_t> order_;  // from a row to its index in `photos_`
  std::unordered_set<std::int64_t> possible_aliases_;  // rows whose file may be that of another row
  std::vector<Candidate> candidates_;
  Duplicates result_;
};

}  // namespace

const char* to_string(Likeness likeness) {
  switch (likeness) {
    case Likeness::kIdenticalFile:
      return "identical file";
    case Likeness::kIdenticalPixels:
      return "identical pixels";
    case Likeness::kSimilar:
      break;
  }
  return "similar";
}

Duplicates find_duplicates(const CollectionParts& parts, const DuplicateOptions& options) {
  if (std::isnan(options.threshold) || options.threshold <= 0 || options.threshold > 1) {
    fail("invalid threshold {}; it must be above 0 and at most 1", options.threshold);
  }
  return DuplicateSearch(parts, options).run();
}

}  // namespace fovea
