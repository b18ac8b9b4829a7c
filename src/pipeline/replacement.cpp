// Replacement: renames the folder of new files, and then moves the files.
#include "pipeline/replacement.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "io/atomic_file.hpp"
#include "io/text.hpp"
#include "pipeline/output_files.hpp"
#include "pipeline/output_proof.hpp"
#include "pipeline/stored_file.hpp"

namespace fovea::pipeline {
namespace {

constexpr const char* kNewFolder = "new";

std::shared_ptr<const io::Folder> open_new_folder(const io::Folder& output) {
  const auto updates = output.open_folder(kUpdateFolder);
  return updates ? updates->open_folder(kNewFolder) : nullptr;
}

Manifest read_new_manifest(const io::Folder& folder) {
  const StoredFile file(folder, kManifestFile);
  const std::string text = file.text(kMaxManifestBytes);
  try {
    return parse_manifest(text);
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    fail("{}: {}; the interrupted update cannot be completed: make the output again with {}",
         file.display_path(), error.what(), option_words("overwrite"));
  }
}

// Moves an embeddings file and its index. A run that was killed may have moved some of them before.
void move_shard(const io::Folder& new_files, const io::Folder& output, const OutputLayout& layout,
                std::uint64_t number) {
  const std::string data = layout.data_file(number);
  const std::string index = layout.index_file(number);
  if (layout.has_index() && new_files.has(index)) {
    output.remove(data);
    new_files.move_to(output, index);
  }
  if (new_files.has(data)) {
    new_files.move_to(output, data);
  }
}

}  // namespace

Replacement::Replacement(std::shared_ptr<const io::Folder> output)
    : output_(std::move(output)), updates_(output_->make_folder(kUpdateFolder)) {
  updates_->remove_folder(partial_name(kNewFolder));
  folder_ = updates_->make_folder(partial_name(kNewFolder));
}

void Replacement::commit(const Manifest& manifest) {
  io::write_file_atomically(folder_, kManifestFile, format_manifest(manifest));
  folder_->sync();
  updates_->rename(partial_name(kNewFolder), kNewFolder);
  updates_->sync();
  output_->sync();
  finish_replacement(output_);
}

std::optional<Manifest> interrupted_replacement(const io::Folder& output) {
  const std::shared_ptr<const io::Folder> folder = open_new_folder(output);
  if (!folder || !folder->has(kManifestFile)) {  // the manifest is moved last of all files
    return std::nullopt;
  }
  return read_new_manifest(*folder);
}

void finish_replacement(const std::shared_ptr<const io::Folder>& output) {
  const std::shared_ptr<const io::Folder> updates = output->open_folder(kUpdateFolder);
  if (!updates) {
    return;
  }
  const std::shared_ptr<const io::Folder> folder = updates->open_folder(kNewFolder);
  if (!folder) {
    if (updates->list().empty()) {
      output->remove_folder(kUpdateFolder);
    }
    return;
  }
  if (folder->has(kManifestFile)) {
    Manifest manifest = read_new_manifest(*folder);
    const OutputLayout layout(manifest.identity);
    const JobState& state = manifest.state;
    manifest.state.finished = false;
    io::write_file_atomically(output, kManifestFile, format_manifest(manifest));
    std::set<std::uint64_t> numbers;
    for (const std::string& name : folder->list()) {
      const std::optional<std::uint64_t> number = shard_number(name);
      if (number && layout.is_complete_file(name, state.shards)) {
        numbers.insert(*number);
      }
    }
    for (const std::uint64_t number : numbers) {
      move_shard(*folder, *output, layout, number);
    }
    std::vector<std::string> old_files = uncounted_files(*output, layout, state);
    std::ranges::sort(old_files);  // removes embeddings before their indexes
    for (const std::string& name : old_files) {
      output->remove(name);
    }
    for (const std::string name : {kErrorsFile, kJournalFile}) {
      if (folder->has(name)) {
        folder->move_to(*output, name);
      }
    }
    remove_leftovers(*output, true);
    output->sync();
    folder->move_to(*output, kManifestFile);
  }
  output->sync();
  for (const std::string& name : updates->list()) {
    if (name != kNewFolder) {  // removed last, together with its parent
      updates->remove_folder(name);
    }
  }
  output->remove_folder(kUpdateFolder);
}

void remove_leftovers(const io::Folder& output, bool finished) {
  output.remove(partial_name(kManifestFile));
  output.remove(partial_name(partial_name(kJournalFile)));
  if (finished) {
    output.remove(kRetryingFile);
    for (const std::string name : {kErrorsFile, kRetryingFile, kJournalFile}) {
      output.remove(partial_name(name));
    }
  }
}

}  // namespace fovea::pipeline
