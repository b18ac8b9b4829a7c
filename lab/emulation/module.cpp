// Loads the kernels of a PTX file, and finds them by name.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "fovea_emulator/error.hpp"
#include "io/nearest.hpp"
#include "io/text.hpp"
#include "lab/emulation/emulation.hpp"
#include "lab/emulation/ptx_file.hpp"

namespace fovea::emulation {
namespace {

// Returns the name without the types of result and parameters: "ns::saxpy<4>" for "void
// ns::saxpy<4>(int)".
std::string without_types(std::string name) {
  int depth = 0;  // nesting depth of <>; parentheses and spaces inside are skipped
  std::size_t begin = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (depth == 0 && name[i] == ' ') {
      begin = i + 1;
    }
    if (depth == 0 && name[i] == '(' && !name.substr(i).starts_with("(anonymous")) {
      name.resize(i);
      break;
    }
  }
  return name.substr(begin);
}

}  // namespace

std::string plain_name(const std::string& name) {
  return without_types(source_name(name));
}

bool is_called(const std::string& kernel, const std::string& name) {
  const std::string full_name = source_name(kernel);
  const std::string plain = without_types(full_name);
  return name == kernel || name == full_name || name == plain ||
         name == plain.substr(0, plain.find('<'));
}

Module::Module(const std::filesystem::path& path, std::size_t max_memory, const std::string& name)
    : name_(io::escape(name.empty() ? path.native() : name)) {
  const std::string text = read_ptx(path, std::min(kMaxPtxBytes, max_memory));
  try {
    kernels_ = device_.load(text, max_memory - text.size(), emu::Decode::kAtLaunch);
  } catch (const emu::TooLarge& error) {
    fail("{}: {}; --most-memory allows more", name_, error.what());
  } catch (const emu::Error& error) {
    fail("{}: {}", name_, error.what());
  }
  if (kernels_.empty()) {
    fail("{}: the file contains no kernel", name_);
  }
}

void Module::decode(const emu::KernelHandle& kernel) const {
  try {
    device_.decode(kernel);
  } catch (const emu::TooLarge& error) {
    fail("{}: {}; --most-memory allows more", name_, error.what());
  } catch (const emu::Error& error) {
    fail("{}: {}", name_, error.what());
  }
}

const emu::KernelHandle& Module::find(const std::string& name) const {
  std::vector<std::string> names;
  std::vector<const emu::KernelHandle*> matches;
  for (const emu::KernelHandle& kernel : kernels_) {
    if (kernel.name == name) {
      return kernel;
    }
    names.push_back(plain_name(kernel.name));
    if (name.empty() || is_called(kernel.name, name)) {
      matches.push_back(&kernel);
    }
  }
  if (matches.size() == 1) {
    return *matches.front();
  }
  constexpr std::size_t kMaxListed = 20;
  names.resize(std::min(names.size(), kMaxListed));
  const std::string more = kernels_.size() > kMaxListed ? ", ..." : "";
  if (name.empty() || matches.size() > 1) {
    fail("{} has {} kernels{}; choose one of {}{}", name_, matches.size(),
         name.empty() ? "" : fmt::format(" called {}", io::printable(name)), fmt::join(names, ", "),
         more);
  }
  const std::string hint = io::did_you_mean(name, names);
  fail("{} has no kernel {}{}", name_, io::printable(name),
       hint.empty() ? fmt::format("; its kernels are {}{}", fmt::join(names, ", "), more) : hint);
}

}  // namespace fovea::emulation
