// Code that all sources share: an error within a source becomes one failed input.
#include "pipeline/source.hpp"

#include <utility>

#include "core/error.hpp"

namespace fovea::pipeline {

Item failed_item(std::string name, std::string error) {
  Item item;
  item.kind = Item::Kind::kFailed;
  item.name = std::move(name);
  item.error = std::move(error);
  return item;
}

bool Source::next(Item& item, StopFlag stop) {
  if (ended_) {
    return false;
  }
  stop.poll();
  try {
    ended_ = !do_next(item, stop);
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    if (name_.empty()) {
      throw;
    }
    ended_ = true;
    item = failed_item(name_, error.what());
    item.loses_names = loses_names_;
    return true;
  }
  return !ended_;
}

void Source::load(Item& item, const Limits& limits) {
  do_load(item, limits);
}

}  // namespace fovea::pipeline
