// Reads card files, and makes cards of them.
#include "lab/card_files/card_file.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "core/error.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/text.hpp"
#include "kernels/archs.hpp"
#include "lab/card_files/file_workload.hpp"
#include "lab/system/compiler.hpp"

namespace fovea::lab {
namespace {

using emulation::Field;
using emulation::Values;

constexpr std::int64_t kMaxField = std::int64_t{1} << 40;

/// The fields of a card file beside those of a launch file.
const std::vector<std::string>& own_fields() {
  static const std::vector<std::string> fields = {
      "operation", "source",  "flags", "targets", "macros", "cases",
      "reference", "mutants", "flops", "terms",   "limits", "independent_rows"};
  return fields;
}

std::vector<std::string> read_texts(const Field& field) {
  std::vector<std::string> texts;
  for (const Field& element : field.elements()) {
    texts.push_back(element.text());
  }
  return texts;
}

std::string text_or(const Field& field, std::string_view key, const std::string& otherwise) {
  const auto found = field.find(key);
  return found ? found->text() : otherwise;
}

/// Returns the file's source and flags.
KernelFile read_source_file(const Field& document, const FileCard& card) {
  KernelFile file{.path = card.folder / document.at("source").text(), .macros = card.macros};
  if (const auto flags = document.find("flags")) {
    file.flags = read_texts(*flags);
  }
  const auto targets = document.find("targets");
  if (targets && file.path.extension() != ".cu") {
    targets->fail("PTX has a target of its own, and only sources in CUDA C++ (.cu) are compiled");
  }
  file.targets = targets ? read_texts(*targets) : std::vector<std::string>{"sm_90a"};
  if (file.targets.empty() || file.targets.size() > gpu::kArchs.size()) {
    document.at("targets").fail(fmt::format("expected 1 to {} targets", gpu::kArchs.size()));
  }
  return file;
}

Values read_macros(const Field& document) {
  Values macros;
  if (const auto field = document.find("macros")) {
    for (const std::string& name : field->keys()) {
      if (!emulation::is_name(name)) {
        field->fail(fmt::format("\"{}\" is no name of a macro", io::printable(name)));
      }
      macros[name] = static_cast<std::int64_t>(field->at(name).whole(0, kMaxField));
    }
  }
  return macros;
}

/// Reads the one buffer that has a reference, and the expressions.
void read_reference(const Field& document, FileCard& card) {
  const Field reference = document.at("reference");
  const std::vector<std::string> outputs = reference.keys();
  if (outputs.size() != 1) {
    reference.fail(fmt::format("expected the expression of one buffer, got {}", outputs.size()));
  }
  card.output = outputs.front();
  card.reference = reference.at(card.output).text();
  if (!document.at("buffers").find(card.output)) {
    reference.fail(fmt::format("there is no buffer {}", io::printable(card.output)));
  }
  if (const auto mutants = document.find("mutants")) {
    for (const std::string& name : mutants->keys()) {
      card.mutants.emplace_back(name, mutants->at(name).text());
    }
  }
  card.independent_rows = text_or(document, "independent_rows", "");
}

std::shared_ptr<FileCard> read_file_card(const std::string& name) {
  auto card = std::make_shared<FileCard>();
  card->name = io::printable(name);
  card->folder = std::filesystem::path(name).parent_path();
  card->document = io::parse_json_object(io::read_small_file(name), card->name);
  const Field document(card->document);
  card->macros = read_macros(document);
  card->operation = text_or(document, "operation", "a kernel of " + card->name);
  read_reference(document, *card);
  const emulation::LaunchFile launches = card->launch_file(card->problem({}));
  std::vector<std::string> names;
  for (const emulation::LaunchText& launch : launches.launches) {
    if (std::ranges::find(names, launch.kernel) == names.end()) {
      names.push_back(launch.kernel);
    }
  }
  const std::vector<FileKernel> kernels =
      add_file_kernels(read_source_file(document, *card), names);
  for (const emulation::LaunchText& launch : launches.launches) {
    const auto index = std::ranges::find(names, launch.kernel) - names.begin();
    card->kernels.push_back(kernels[static_cast<std::size_t>(index)]);
  }
  return card;
}

Case case_of_problem(const std::shared_ptr<const FileCard>& card, const Values& problem) {
  Case made;
  for (const auto& [name, value] : problem) {
    made.name += fmt::format("{}{}{}", made.name.empty() ? "" : "_", name, value);
  }
  if (made.name.empty()) {
    made.name = "all";
  }
  made.make = [card, problem](std::uint64_t seed) {
    return std::make_unique<FileWorkload>(card, problem, seed);
  };
  return made;
}

/// Returns the small cases of the file, of which the first has mutants, and the one that matters.
std::vector<Case> read_cases(const std::shared_ptr<const FileCard>& card) {
  std::vector<Case> cases;
  std::set<std::string> names;
  const auto add = [&](const Field& field, const Values& changes, const CaseUse& use) {
    try {
      cases.push_back(case_of_problem(card, card->problem(changes)).used(use));
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      field.fail(error.what());
    }
    if (!names.insert(cases.back().name).second) {
      field.fail(fmt::format("the case {} is there twice", cases.back().name));
    }
  };
  const Field document(card->document);
  if (const auto small = document.find("cases")) {
    for (const Field& field : small->elements()) {
      Values changes;
      for (const std::string& name : field.keys()) {
        changes[name] = static_cast<std::int64_t>(field.at(name).whole(0, kMaxField));
      }
      add(field, changes, {.mutants = cases.empty(), .small = true});
    }
  }
  add(document, {}, {.bench = true, .mutants = cases.empty()});
  return cases;
}

std::vector<KernelLimits> read_limits(const FileCard& card) {
  KernelLimits limits;
  const Field document(card.document);
  if (const auto field = document.find("limits")) {
    field->expect_keys({"registers", "shared_bytes", "sass_has", "sass_lacks"});
    const auto number = [&](std::string_view key, int& to) {
      if (const auto value = field->find(key)) {
        to = static_cast<int>(value->whole(0, std::numeric_limits<int>::max()));
      }
    };
    number("registers", limits.registers);
    number("shared_bytes", limits.shared_bytes);
    if (const auto has = field->find("sass_has")) {
      limits.sass_has = read_texts(*has);
    }
    if (const auto lacks = field->find("sass_lacks")) {
      limits.sass_lacks = read_texts(*lacks);
    }
  }
  std::vector<KernelLimits> all;
  for (const FileKernel& kernel : card.kernels) {
    limits.kernel = gpu::info_of(kernel.id).name;
    if (std::ranges::find(all, limits.kernel, &KernelLimits::kernel) == all.end()) {
      all.push_back(limits);
    }
  }
  return all;
}

Card make_card(const std::string& name) {
  const std::shared_ptr<const FileCard> file = read_file_card(name);
  Card card{.name = name, .operation = file->operation, .emulates_mutants = true};
  card.cases = read_cases(file);
  card.kernels = read_limits(*file);
  const std::vector<int> archs = card_archs(card);
  card.first_arch = archs.empty() ? 0 : archs.front();
  const std::unique_ptr<Workload> timed = card.cases.back().make(1);
  card.tolerance = tolerance_of(timed->output().type);
  Values names = file->problem({});
  names.insert(file->macros.begin(), file->macros.end());
  if (const auto terms = Field(file->document, "", &names).find("terms")) {
    card.tolerance.terms = static_cast<std::int64_t>(terms->whole(1, kMaxField));
  }
  card.problem = [file](ProblemFields& fields) {
    Values problem = file->problem({});
    for (auto& [field, value] : problem) {
      static_cast<void>(fields.take(field, value, {.min = 0, .max = kMaxField}));
    }
    return case_of_problem(file, problem).used({.mutants = true});
  };
  return card;
}

}  // namespace

Values FileCard::problem(const Values& changes) const {
  return emulation::read_problem(Field(document), changes);
}

emulation::LaunchFile FileCard::launch_file(const Values& problem) const {
  return emulation::read_launch_document(document, name, folder,
                                         {.any_path = true,
                                          .problem = problem,
                                          .macros = macros,
                                          .with_content = false,
                                          .other_fields = own_fields()});
}

bool is_card_file(std::string_view name) {
  return name.ends_with(".json") || name.find('/') != std::string_view::npos;
}

const Card& file_card(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Card>> all;
  std::unique_ptr<Card>& card = all[name];
  if (card == nullptr) {
    try {
      card = std::make_unique<Card>(make_card(name));
    } catch (const CompileError&) {
      throw;
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      const std::string text = error.what();
      fail("{}{}", text.starts_with(io::printable(name)) ? "" : io::printable(name) + ": ", text);
    }
  }
  return *card;
}

std::vector<const Card*> named_cards(std::span<const std::string> names) {
  std::vector<const Card*> files;
  std::vector<std::string> others;
  for (const std::string& name : names) {
    if (is_card_file(name)) {
      files.push_back(&file_card(name));
    } else {
      others.push_back(name);
    }
  }
  std::vector<const Card*> cards =
      files.empty() || !others.empty() ? find_cards(others) : std::vector<const Card*>{};
  cards.insert(cards.end(), files.begin(), files.end());
  return cards;
}

}  // namespace fovea::lab
