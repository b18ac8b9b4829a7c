// Writes cubins to files, and parses nvdisasm's listings of them.
#include "lab/code/machine_code.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <elf.h>

#include "core/error.hpp"
#include "lab/system/process.hpp"

namespace fovea::lab {
namespace {

constexpr const char* kNoElf = "the machine code of a kernel is not a complete ELF file";

std::span<const std::byte> part(std::span<const std::byte> file, std::size_t offset,
                                std::size_t size) {
  if (offset > file.size() || size > file.size() - offset) {
    fail(kNoElf);
  }
  return file.subspan(offset, size);
}

template <typename T>
T read(std::span<const std::byte> file, std::size_t offset) {
  T value;
  std::memcpy(&value, part(file, offset, sizeof(T)).data(), sizeof(T));
  return value;
}

/// Returns the address at the start of a line such as "   /*0010*/   LDC R1 ;"; 0 if there is none.
std::size_t line_address(std::string_view line) {
  const std::size_t open = std::min(line.find_first_not_of(' '), line.size());
  line.remove_prefix(open);
  std::size_t address = 0;
  if (line.starts_with("/*")) {
    std::from_chars(line.data() + 2, line.data() + line.size(), address, 16);
  }
  return address;
}

}  // namespace

std::vector<std::byte> kernel_instructions(std::span<const std::byte> cubin,
                                           std::string_view kernel) {
  const auto header = read<Elf64_Ehdr>(cubin, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    fail(kNoElf);
  }
  const auto section = [&](std::size_t index) {
    return read<Elf64_Shdr>(cubin, header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  const std::string section_name = fmt::format(".text.{}", kernel);
  std::vector<std::byte> code;
  for (std::size_t index = 0; index < header.e_shnum; ++index) {
    const Elf64_Shdr candidate = section(index);
    const std::span<const std::byte> rest =
        part(part(cubin, names.sh_offset, names.sh_size), candidate.sh_name,
             names.sh_size - candidate.sh_name);
    if (rest.size() > section_name.size() &&
        std::memcmp(rest.data(), section_name.c_str(), section_name.size() + 1) == 0) {
      const std::span<const std::byte> function =
          part(cubin, candidate.sh_offset, candidate.sh_size);
      code.insert(code.end(), function.begin(), function.end());
    }
  }
  return code;
}

std::vector<std::string_view> split_listing(std::string_view listing,
                                            std::span<const std::size_t> sizes) {
  std::vector<std::string_view> parts;
  std::size_t end = 0;  // end of the kernel's instructions
  for (const std::size_t size : sizes) {
    end += size;
    std::size_t length = 0;
    while (length < listing.size()) {
      const std::size_t line_end = std::min(listing.find('\n', length), listing.size() - 1);
      if (line_address(listing.substr(length, line_end - length)) >= end) {
        break;
      }
      length = line_end + 1;
    }
    parts.push_back(listing.substr(0, length));
    listing.remove_prefix(length);
  }
  return parts;
}

std::string disassemble(std::span<const std::byte> cubin, std::vector<std::string> options,
                        std::string_view what) {
  const std::string program = find_program("nvdisasm");
  if (program.empty()) {
    fail(
        "nvdisasm is neither on the PATH nor in build/cuda/bin, where scripts/setup --test puts "
        "it, nor in $CUDA_HOME/bin");
  }
  const TemporaryFile input(cubin);
  options.insert(options.begin(), program);
  options.push_back(input.path());
  ProcessResult result = run_process(options);
  if (result.exit_code != 0) {
    fail("nvdisasm failed on {}: {}", what, result.errors);
  }
  return std::move(result.output);
}

std::string_view kernel_listing(std::string_view listing, std::string_view kernel) {
  // Each kernel has its own section.
  const std::size_t begin = listing.find(fmt::format("\t.section\t.text.{},", kernel));
  if (begin == listing.npos) {
    fail("nvdisasm lists no instructions of {}", kernel);
  }
  return listing.substr(begin, listing.find("\n\t.section\t", begin) - begin);
}

std::string disassemble(const gpu::KernelImage& image, std::vector<std::string> options) {
  return std::string(
      kernel_listing(disassemble(gpu::unpack(image), std::move(options), image.name), image.name));
}

std::vector<std::string> disassemble(std::span<const gpu::KernelImage* const> images) {
  if (images.empty()) {
    return {};
  }
  std::vector<std::byte> code;
  std::vector<std::size_t> sizes;
  for (const gpu::KernelImage* const image : images) {
    const std::vector<std::byte> instructions =
        kernel_instructions(gpu::unpack(*image), image->name);
    code.insert(code.end(), instructions.begin(), instructions.end());
    sizes.push_back(instructions.size());
  }
  const gpu::KernelImage& first = *images.front();
  // -ndf skips nvdisasm's analysis of indirect branch targets, which is not needed.
  const std::string listing =
      disassemble(code, {"-ndf", "-b", fmt::format("SM{}", first.arch)},
                  fmt::format("{} and {} more kernels", first.name, images.size() - 1));
  std::vector<std::string> listings;
  for (const std::string_view part : split_listing(listing, sizes)) {
    listings.emplace_back(part);
  }
  return listings;
}

}  // namespace fovea::lab
