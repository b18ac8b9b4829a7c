// Matches are told in lines, in JSON and on the page in one walk over them.
#include "cli/neighbours.hpp"

#include <iostream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/options.hpp"
#include "cli/terminal.hpp"
#include "core/device_name.hpp"
#include "fovea/error.hpp"
#include "io/output_place.hpp"

namespace fovea::cli {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json report_neighbours(const Collection& collection, const PhotoReport& report,
                       std::span<const Query> queries, std::span<const std::vector<Match>> results,
                       bool prints_table, Page& page) {
  Json list = Json::array();
  if (prints_table && stdout_is_terminal() && !queries.empty()) {
    std::cout << PhotoReport::heading(queries.front().scale ? "  rank  prob. " : "  rank");
  }
  for (std::size_t index = 0; index < queries.size(); ++index) {
    const Query& query = queries[index];
    const std::string found =
        count_of(static_cast<std::int64_t>(results[index].size()), "neighbour");
    PageSection section{query.is_text ? query.photo.source : found, "", std::nullopt, {}};
    if (!query.is_text) {
      section.query = report.picture(query.photo, std::nullopt);
    }
    Json matches = Json::array();
    if (prints_table) {
      std::cout << printable_name(query.photo.source) << '\n';
    }
    int rank = 0;
    for (const Match& match : results[index]) {
      const Photo photo = collection.photo(match.row);
      Json item = report.json(photo, match.score);
      PagePicture picture = report.picture(photo, match.score);
      std::string first = fmt::format("{:6}", ++rank);
      if (query.scale) {
        const double probability = query.scale->probability(match.score);
        item["logit"] = query.scale->logit(match.score);
        item["probability"] = probability;
        picture.facts.insert(picture.facts.begin(), fmt::format("probability {:.4f}", probability));
        first += fmt::format("  {:6.4f}", probability);
      }
      if (prints_table) {
        std::cout << report.line(first, match.score, photo);
      }
      matches.push_back(std::move(item));
      section.pictures.push_back(std::move(picture));
    }
    page.sections.push_back(std::move(section));
    Json item{{"query", query.photo.source}};
    if (query.photo.row >= 0) {
      item["row"] = query.photo.row;
    }
    item["matches"] = std::move(matches);
    list.push_back(std::move(item));
  }
  return {{"rows", collection.rows()}, {"queries", std::move(list)}};
}

void print_file0(const Photo& photo) {
  const std::string& name = photo.file.native();
  // A name that begins with a dash must not become an option of `rm`.
  std::cout << (name.starts_with('-') ? "./" : "") << name << '\0';
}

std::string names_of(const std::vector<fs::path>& outputs) {
  std::string names;
  for (const fs::path& output : outputs) {
    names += (names.empty() ? "" : ", ") + output.native();
  }
  return source_name(names);
}

std::string where_searched(const Collection& collection) {
  const std::string where = " in " + names_of(collection.outputs());
  if (collection.model().empty()) {
    return where;
  }
  // The name of a folder, without where it lies on this machine; hub names as they are.
  const fs::path path = collection.model();
  const std::string title =
      path.is_absolute() ? (path.has_filename() ? path : path.parent_path()).filename().string()
                         : path.string();
  return fmt::format("{}, embedded by {}", where, source_name(title));
}

void say_if_unfinished(const Collection& collection) {
  for (const std::string& sentence : collection.missing_shards()) {
    say(sentence + "; searching what is there");
  }
  if (!collection.is_finished()) {
    say(fmt::format(
        "{}: the job that writes it has not finished; searching the {} that are complete",
        names_of(collection.outputs()), count_of(collection.rows(), "row")));
  }
}

SearchProgress progress_on(ProgressLine& line) {
  return [&line](std::int64_t done, std::int64_t total) {
    if (done < total) {
      line.update("comparing", "photos", static_cast<std::uint64_t>(done),
                  static_cast<std::uint64_t>(total));
    } else {
      ProgressLine::clear();  // the results may be printed on the same terminal
    }
  };
}

CLI::Option* add_search_device(CLI::App& command, std::string& device) {
  return add_device(command, device,
                    "Where to compare, and to embed what is not in OUT; auto compares on a GPU "
                    "where there are more than 1024 queries");
}

CLI::Option* add_outputs(CLI::App& command, std::vector<std::string>& outputs) {
  return add_texts(command, "-i,--in", outputs,
                   "Output of `fovea embed`: a folder or one .npy; repeat it to search outputs of "
                   "one model as one")
      ->type_name("OUT")
      ->allow_extra_args(false)
      ->required()
      ->group(kInputGroup);
}

CLI::Option* add_page(CLI::App& command, std::string& html) {
  CLI::Option* const option =
      add_text(command, "--html", "FILE", html,
               "Write a self-contained page of pictures (instead of the table)")
          ->group(kReportGroup);
  return names_output(command, option, OutputKind::kPage);
}

CLI::Option* add_root(CLI::App& command, std::string& root) {
  return add_text(command, "--root", "FOLDER", root,
                  "Folder in which relative names of photos in OUT start (without it: where `fovea "
                  "embed` ran)")
      ->group(kInputGroup);
}

void with_page(const std::string& html, int threads,
               const std::function<Page(PageNotes& notes)>& make) {
  if (!html.empty()) {
    io::check_writable(html);
  }
  PageNotes notes;
  const Page page = make(notes);
  if (html.empty()) {
    return;
  }
  const std::int64_t missing = write_page(html, page, threads, notes.encoder);
  std::error_code no_file;
  const std::uintmax_t bytes = fs::file_size(html, no_file);
  say(fmt::format(
      "wrote {}{}", source_name(html),
      no_file ? "" : fmt::format(" ({})", bytes_text(static_cast<std::int64_t>(bytes)))));
  if (missing > 0) {
    say(fmt::format("{} could not be read; placeholders stand for them{}",
                    count_of(missing, "picture"), notes.hint));
  }
}

EncoderOptions encoder_for_queries(const std::string& device, int threads, Tower first) {
  const std::optional<DeviceName> name = parse_device(device);
  const bool on_gpu = name && name->is_gpu();
  return {.device = on_gpu ? device : "cpu",
          .precision = on_gpu ? Precision::kAuto : Precision::kFp32,
          .threads = threads,
          .first = first};
}

void check_dimension(const Collection& collection, std::int64_t dimension,
                     const std::string& what) {
  if (dimension != collection.dimension()) {
    throw Error(fmt::format("{}: has vectors of {} numbers, but those in {} have {}",
                            source_name(what), dimension, names_of(collection.outputs()),
                            collection.dimension()));
  }
}

}  // namespace fovea::cli
