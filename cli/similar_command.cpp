// `fovea similar`: finds neighbours and near-duplicates, and shows them as a table, JSON or a page.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/json_output.hpp"
#include "cli/model_option.hpp"
#include "cli/options.hpp"
#include "cli/terminal.hpp"
#include "fovea/encoder.hpp"
#include "fovea/error.hpp"
#include "fovea/search.hpp"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct SimilarOptions {
  std::vector<std::string> queries;
  std::string in;
  std::string model;
  int k = 10;
  bool duplicates = false;
  double threshold = 0.98;
  std::int64_t limit = 100;
  JsonOutput json;
  std::string html;
  std::string root;
  int threads = 0;
};

// A photo or vector whose neighbours are searched.
struct Query {
  PagePicture picture;
  std::int64_t row = -1;  // its own row, when it has one
};

std::string count_of(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

class Similar {
 public:
  explicit Similar(const SimilarOptions& options)
      : options_(options), collection_(options.in, options.threads) {
    if (!collection_.is_finished()) {
      say(fmt::format(
          "{}: the job that writes it has not finished; searching the {} that are complete",
          printable_name(options_.in), count_of(collection_.rows(), "row")));
    }
  }

  int run() {
    const Page page = options_.duplicates ? find_duplicates() : find_neighbours();
    if (options_.html.empty()) {
      return kDone;
    }
    const std::int64_t missing = write_page(options_.html, page, options_.root, options_.threads);
    say("wrote " + options_.html);
    if (missing > 0) {
      say(fmt::format(
          "{} could not be read and are placeholders; names are relative to {}",
          count_of(missing, "picture"),
          options_.root.empty() ? "the working directory (see --root)" : options_.root));
    }
    return kDone;
  }

 private:
  [[nodiscard]] bool prints_table() const {
    return options_.json.leaves_text() && options_.html.empty();
  }

  Page find_duplicates() {
    const auto groups = collection_.duplicates(options_.threshold);
    Page page;
    Json list = Json::array();
    std::int64_t members = 0;
    for (const std::vector<Match>& group : groups) {
      members += static_cast<std::int64_t>(group.size());
      page.sections.push_back(section_of(std::nullopt, group));
      list.push_back({{"members", json_of(page.sections.back(), group)}});
      if (prints_table()) {
        std::cout << "group " << list.size() << ", " << count_of(group.size(), "photo") << '\n';
        print(page.sections.back());
      }
    }
    options_.json.write(
        {{"threshold", options_.threshold}, {"rows", collection_.rows()}, {"groups", list}});
    const std::string summary = fmt::format(
        "{} of {} in {}, linked by pairs with a cosine of at least {:g}",
        count_of(members, "photo"), collection_.rows(),
        count_of(static_cast<std::int64_t>(groups.size()), "group"), options_.threshold);
    say(summary);
    page.title = "Near-duplicates";
    page.description = summary + described();
    return page;
  }

  Page find_neighbours() {
    gather_queries();
    std::vector<std::int64_t> own;
    own.reserve(queries_.size());
    for (const Query& query : queries_) {
      own.push_back(query.row);
    }
    const auto results = collection_.nearest(vectors_, options_.k, own);
    Page page;
    Json list = Json::array();
    for (std::size_t index = 0; index < queries_.size(); ++index) {
      const Query& query = queries_[index];
      page.sections.push_back(section_of(query.picture, results[index]));
      const PageSection& section = page.sections.back();
      Json item{{"query", query.picture.source}};
      if (query.row >= 0) {
        item["row"] = query.row;
      }
      item["matches"] = json_of(section, results[index]);
      list.push_back(std::move(item));
      if (prints_table()) {
        std::cout << printable_name(query.picture.source) << '\n';
        print(section);
      }
    }
    options_.json.write({{"rows", collection_.rows()}, {"queries", list}});
    page.title = queries_.size() == 1
                     ? "Neighbours of " + queries_.front().picture.source
                     : fmt::format("{} queries and their neighbours", queries_.size());
    page.description =
        fmt::format("The {} nearest of {}", options_.k, count_of(collection_.rows(), "photo")) +
        described();
    return page;
  }

  [[nodiscard]] std::string described() const {
    const std::string where = fmt::format(" in {}", source_name(options_.in));
    return collection_.model().empty()
               ? where
               : fmt::format("{}, embedded by {}", where, source_name(collection_.model()));
  }

  PageSection section_of(std::optional<PagePicture> query,
                         const std::vector<Match>& matches) const {
    PageSection section{std::move(query), {}};
    for (const Match& match : matches) {
      section.pictures.push_back({collection_.source(match.row), match.score, {}});
    }
    return section;
  }

  static Json json_of(const PageSection& section, const std::vector<Match>& matches) {
    Json list = Json::array();
    for (std::size_t index = 0; index < matches.size(); ++index) {
      list.push_back({{"row", matches[index].row},
                      {"score", matches[index].score},
                      {"source", section.pictures[index].source}});
    }
    return list;
  }

  static void print(const PageSection& section) {
    int rank = 0;
    for (const PagePicture& picture : section.pictures) {
      std::cout << fmt::format("{:6}  {:8.6f}  {}\n", ++rank, picture.score.value_or(0),
                               printable_name(picture.source));
    }
  }

  // Takes rows when no query is given, else each query as a name in OUT, a .npy file, or a photo.
  void gather_queries() {
    if (options_.queries.empty()) {
      const std::int64_t count =
          options_.limit == 0 ? collection_.rows() : std::min(collection_.rows(), options_.limit);
      for (std::int64_t row = 0; row < count; ++row) {
        add_row(row);
      }
      if (count < collection_.rows()) {
        say(fmt::format("using the first {} of {} rows; --limit raises the number", count,
                        collection_.rows()));
      }
      return;
    }
    for (const std::string& query : options_.queries) {
      std::error_code ignored;  // opening it reports the error
      const bool exists = fs::status(query, ignored).type() != fs::file_type::not_found;
      if (const auto row = find_row(query)) {
        add_row(*row);
      } else if (fs::path(query).extension() == ".npy" && exists) {
        add_vectors(query);
      } else if (exists) {
        add_photo(query);
      } else {
        throw Error(fmt::format("{}: is neither the name of a photo in {} nor a file",
                                source_name(query), source_name(options_.in)));
      }
    }
  }

  [[nodiscard]] std::optional<std::int64_t> find_row(const std::string& query) const {
    const auto row = collection_.find(query);
    return row ? row : collection_.find_file(query, options_.root);
  }

  void add(Query query, const std::vector<float>& values) {
    queries_.push_back(std::move(query));
    vectors_.insert(vectors_.end(), values.begin(), values.end());
  }

  void add_row(std::int64_t row) {
    add({{collection_.source(row), {}, {}}, row}, collection_.embedding(row));
  }

  void add_vectors(const std::string& path) {
    const Vectors vectors = read_vectors(path);
    check_dimension(vectors.dimension, path);
    for (std::int64_t index = 0; index < vectors.rows; ++index) {
      const auto first = vectors.values.begin() + index * vectors.dimension;
      add({{fmt::format("{}[{}]", source_name(path), index), {}, {}}, -1},
          {first, first + vectors.dimension});
    }
  }

  void add_photo(const std::string& path) {
    if (!encoder_) {
      const std::string& model = options_.model.empty() ? collection_.model() : options_.model;
      if (model.empty()) {
        throw Error(
            fmt::format("{}: is not a photo of {}, so it must be embedded, but no "
                        "manifest.json names the model: give it with -m",
                        source_name(path), source_name(options_.in)));
      }
      encoder_.emplace(model,
                       EncoderOptions{.precision = Precision::kFp32, .threads = options_.threads});
      check_dimension(encoder_->dimension(), model);
    }
    add({{source_name(path), {}, fs::absolute(path)}, -1}, encoder_->embed_file(path));
  }

  void check_dimension(std::int64_t dimension, const std::string& what) const {
    if (dimension != collection_.dimension()) {
      throw Error(fmt::format("{}: has vectors of {} numbers, but those in {} have {}",
                              source_name(what), dimension, source_name(options_.in),
                              collection_.dimension()));
    }
  }

  const SimilarOptions& options_;
  Collection collection_;
  std::optional<Encoder> encoder_;
  std::vector<Query> queries_;
  std::vector<float> vectors_;  // [queries, dimension]
};

}  // namespace

void add_similar(CLI::App& app, Run& run) {
  const auto options = std::make_shared<SimilarOptions>();
  CLI::App* command = app.add_subcommand(
      "similar", "Find the most similar photos, or near-duplicates, in the output of `embed`");
  CLI::Option* query = add_texts(
      *command, "QUERY", options->queries,
      "Photos (names in OUT, or files to embed) or .npy vectors (without any: every photo in OUT)");
  add_text(*command, "-i,--in", "OUT", options->in, "Output of `fovea embed`: a folder or one .npy")
      ->required()
      ->group(kInputGroup);
  add_whole(*command, "-k,--neighbours,--neighbors", {1, INT32_MAX}, options->k,
            "Neighbours per query");
  add_optional_model(*command, options->model,
                     "Model for photos that are not in OUT (without it: the model that made OUT)");
  add_flag(*command, "--duplicates", options->duplicates, "Group near-duplicates instead")
      ->excludes(query);
  add_real(*command, "--threshold", "COSINE", {0, 1}, options->threshold,
           "Lowest cosine of two near-duplicates");
  add_limit(*command, options->limit);
  options->json.add_to(*command);
  add_text(*command, "--html", "FILE", options->html,
           "Write a self-contained page of pictures (instead of the table)")
      ->group(kReportGroup);
  add_text(*command, "--root", "FOLDER", options->root,
           "Folder to which relative names of photos in OUT refer")
      ->group(kInputGroup);
  add_threads(*command, options->threads);
  explain(*command,
          {"A photo that is in OUT, whatever path leads to it, is not listed as its own neighbour. "
           "Scores are cosines. --limit is for the photos that are queries when none is given."},
          {"fovea similar cat.jpg --in OUT           # the 10 most similar photos",
           "fovea similar --in OUT --html page.html  # all photos and their neighbours",
           "fovea similar --in OUT --duplicates --threshold 0.95"});
  command->callback([options, &run] { run = [options] { return Similar(*options).run(); }; });
}

}  // namespace fovea::cli
