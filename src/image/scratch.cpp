// The free list of working memory behind ScratchBuffer.
#include "image/scratch.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/thread_slot.hpp"

namespace fovea::image {
namespace {

constexpr std::size_t kMaxKept = 4;                          // buffers per thread
constexpr std::size_t kMaxKeptBytes = std::size_t{8} << 20;  // per buffer; larger ones are freed

std::vector<AlignedBuffer<std::uint8_t>>& free_list() {
  static ThreadSlot<std::vector<AlignedBuffer<std::uint8_t>>> lists;
  return lists.get();
}

}  // namespace

ScratchBuffer::ScratchBuffer(std::size_t bytes) {
  auto& list = free_list();
  list.reserve(kMaxKept);  // so that the destructor cannot throw
  const auto fits = std::find_if(list.begin(), list.end(),
                                 [bytes](const auto& kept) { return kept.size() >= bytes; });
  if (fits != list.end()) {
    buffer_ = std::move(*fits);
    list.erase(fits);
  } else {
    buffer_ = AlignedBuffer<std::uint8_t>(bytes);
  }
}

ScratchBuffer::~ScratchBuffer() {
  if (buffer_.size() > kMaxKeptBytes) {
    return;
  }
  auto& list = free_list();
  if (list.size() < kMaxKept) {
    list.push_back(std::move(buffer_));
    return;
  }
  // Keeps the largest buffers: replaces the smallest in the list if it is smaller than this one.
  const auto smallest = std::min_element(
      list.begin(), list.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (smallest->size() < buffer_.size()) {
    *smallest = std::move(buffer_);
  }
}

}  // namespace fovea::image
