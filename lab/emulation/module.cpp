// Loads the kernels of a PTX file, and finds them by name.
#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "core/error.hpp"
#include "fovea_emulator/error.hpp"
#include "io/nearest.hpp"
#include "io/text.hpp"
#include "lab/emulation/emulation.hpp"
#include "lab/emulation/ptx_file.hpp"

namespace fovea::emulation {
namespace {

// Returns a kernel's name without the types of result and parameters: "ns::saxpy<4>" for "void
// ns::saxpy<4>(int)".
std::string without_types(std::string name) {
  constexpr std::string_view kResult = "void ";
  if (name.ends_with(')')) {
    std::size_t begin = name.size() - 1;
    for (int depth = 1; depth > 0 && begin > 0;) {
      --begin;
      depth += name[begin] == ')' ? 1 : name[begin] == '(' ? -1 : 0;
    }
    name.resize(begin);
  }
  return name.starts_with(kResult) ? name.substr(kResult.size()) : name;
}

// Whether this is the name with or without types and template arguments.
bool is_form_of(const std::string& full_name, const std::string& name) {
  const std::string plain = without_types(full_name);
  return name == full_name || name == plain || name == plain.substr(0, plain.find('<'));
}

}  // namespace

std::string plain_name(const std::string& name) {
  return without_types(source_name(name));
}

bool is_called(const std::string& kernel, const std::string& name) {
  return name == kernel || is_form_of(source_name(kernel), name) ||
         is_form_of(source_name(kernel, std::string::npos), name);
}

std::string list_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxCharacters = io::kMaxMessageCharacters / 2;
  std::string list;
  for (const std::string& name : names) {
    if (!list.empty() && list.size() + name.size() > kMaxCharacters) {
      return list + ", ...";
    }
    list += (list.empty() ? "" : ", ") + name;
  }
  return list;
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

std::string Module::unique_name(const emu::KernelHandle& kernel) const {
  for (const std::string& name : {plain_name(kernel.name), source_name(kernel.name)}) {
    if (std::ranges::count_if(kernels_, [&](const emu::KernelHandle& other) {
          return is_called(other.name, name);
        }) == 1) {
      return name;
    }
  }
  return kernel.name;
}

std::string Module::list(std::span<const emu::KernelHandle* const> kernels) const {
  constexpr std::size_t kMaxListed = 20;
  std::vector<std::string> names;
  for (const emu::KernelHandle* const kernel :
       kernels.first(std::min(kernels.size(), kMaxListed))) {
    names.push_back(unique_name(*kernel));
  }
  if (kernels.size() > kMaxListed) {
    names.emplace_back("...");
  }
  return list_names(names);
}

const emu::KernelHandle& Module::find(const std::string& name) const {
  std::vector<const emu::KernelHandle*> all;
  std::vector<const emu::KernelHandle*> matches;
  std::vector<std::string> names;
  for (const emu::KernelHandle& kernel : kernels_) {
    if (kernel.name == name) {
      return kernel;
    }
    all.push_back(&kernel);
    names.push_back(plain_name(kernel.name));
    if (name.empty() || is_called(kernel.name, name)) {
      matches.push_back(&kernel);
    }
  }
  if (matches.size() == 1) {
    return *matches.front();
  }
  if (!matches.empty()) {
    fail("{} has {} kernels{}; choose one of {}", name_, matches.size(),
         name.empty() ? "" : fmt::format(" called {}", io::printable(name)), list(matches));
  }
  const std::string hint = io::did_you_mean(name, names);
  fail("{} has no kernel {}{}", name_, io::printable(name),
       hint.empty() ? fmt::format("; its kernels are {}", list(all)) : hint);
}

}  // namespace fovea::emulation
