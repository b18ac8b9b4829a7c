// `fovea search`: finds photos by texts, optionally combined with photos and texts to avoid.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/neighbours.hpp"
#include "cli/progress_line.hpp"
#include "cli/similar_report.hpp"
#include "cli/terminal.hpp"
#include "cli/text_lists.hpp"
#include "fovea/encoder.hpp"
#include "fovea/error.hpp"
#include "fovea/search.hpp"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

struct SearchOptions : NeighbourOptions {
  std::vector<std::string> texts;
  std::vector<std::string> photos;
  double photo_weight = 1;
  std::vector<std::string> avoided_texts;
  double not_weight = 1;
  std::string clean = "auto";
  bool heat = false;

  [[nodiscard]] bool combines() const { return !photos.empty() || !avoided_texts.empty(); }
};

class Search : private NeighbourSearch {
 public:
  explicit Search(const SearchOptions& options)
      : NeighbourSearch(options, options.device),
        options_(options),
        texts_(read_texts(options.texts)) {}

  Page run(PageNotes& notes) {
    if (texts_.empty()) {
      throw Error("the lists contain no text to search for");
    }
    const std::vector<float> vectors = query_vectors();
    const auto results = collection_.nearest(vectors, options_.k, {});
    Page page;
    report_neighbours(queries_, results, page);
    if (options_.print0) {
      print_names(results);
    }
    page.title = queries_.size() == 1 ? queries_.front().photo.source
                                      : fmt::format("{} searches", queries_.size());
    page.description =
        fmt::format("The {} best of {}", options_.k, count_text(collection_.rows(), "photo")) +
        search_scope();
    if (options_.heat) {
      for (std::size_t i = 0; i < page.sections.size(); ++i) {
        page.sections[i].heat = std::move(text_vectors_[i]);
      }
      notes.encoder = &encoder();
    }
    return page;
  }

 private:
  /// Prints the name of each photo once, in the order of the texts and then of the scores.
  void print_names(std::span<const std::vector<Match>> results) const {
    std::unordered_set<std::int64_t> printed;
    std::int64_t members = 0;
    for (const std::vector<Match>& matches : results) {
      for (const Match& match : matches) {
        if (!printed.insert(match.row).second) {
          continue;
        }
        const Photo photo = collection_.photo(match.row);
        if (photo.is_member) {
          ++members;
        } else {
          print_name_and_nul(photo);
        }
      }
    }
    if (members > 0) {
      say(fmt::format("{} not printed, because they are in archives",
                      count_text(members, "photo")));
    }
  }

  /// Returns float [texts, dimension]: for each text, its unit vector plus the weighted unit
  /// vectors of --photo, minus those of --not.
  std::vector<float> query_vectors() {
    std::vector<std::string> all_texts = texts_;
    all_texts.insert(all_texts.end(), options_.avoided_texts.begin(), options_.avoided_texts.end());
    EmbedTextsOptions embedding;
    embedding.clean = parse_text_clean(options_.clean);
    embedding.on_note = [](std::string_view note) { say(note); };
    std::vector<float> vectors = encoder().embed_texts(all_texts, embedding);
    check_dimension(encoder().dimension(), model());
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      const auto begin = vectors.begin() + static_cast<std::ptrdiff_t>(i) * encoder().dimension();
      text_vectors_.emplace_back(begin, begin + encoder().dimension());
    }
    const auto width = static_cast<std::size_t>(collection_.dimension());
    std::vector<QueryTerm> terms;
    for (std::size_t i = texts_.size(); i < all_texts.size(); ++i) {
      terms.push_back({std::span(vectors).subspan(i * width, width), -options_.not_weight});
    }
    std::vector<std::vector<float>> photos;
    photos.reserve(options_.photos.size());
    for (const std::string& photo : options_.photos) {
      terms.push_back({photos.emplace_back(photo_vector(photo)), options_.photo_weight});
    }
    const std::optional<LogitScale> scale =
        options_.combines() ? std::nullopt : std::optional(encoder().logit_scale());
    for (const std::string& text : texts_) {
      Query query{.photo = {}, .is_text = true, .scale = scale};
      query.photo.source = source_name(text);
      for (const std::string& photo : options_.photos) {
        query.photo.source += " + " + source_name(photo);
      }
      for (const std::string& avoided : options_.avoided_texts) {
        query.photo.source += " - " + source_name(avoided);
      }
      queries_.push_back(std::move(query));
    }
    return combine_queries(std::span(vectors).first(texts_.size() * width), collection_.dimension(),
                           terms);
  }

  std::vector<float> photo_vector(const std::string& name) {
    if (const auto row = find_row(name)) {
      return collection_.embedding(*row);
    }
    std::error_code ignored;
    if (!fs::exists(name, ignored)) {
      throw_unknown_name(name);
    }
    return encoder().embed_file(name, true, options_.max_pixels);
  }

  Encoder& encoder() {
    if (!encoder_) {
      if (model().empty()) {
        throw Error(fmt::format("no manifest.json in {} names the model; give it with -m",
                                output_names(collection_.outputs())));
      }
      encoder_.emplace(model(), encoder_options(Tower::kTexts));
      tell_device(encoder_->device());
    }
    return *encoder_;
  }

  const SearchOptions& options_;
  std::vector<std::string> texts_;
  std::vector<Query> queries_;
  std::vector<std::vector<float>> text_vectors_;  // one vector per text, without --photo and --not
};

}  // namespace

void add_search(CLI::App& app, Run& run) {
  const auto options = std::make_shared<SearchOptions>();
  CLI::App* command = app.add_subcommand("search", "Find photos by words in the output of `embed`");
  add_texts(*command, "TEXT", options->texts,
            "Text to search for, such as \"a red bicycle in the snow\", or lists: @FILE, -")
      ->required();
  add_collection_options(*command, *options,
                         "Model for the texts (default: the model that made OUT)");
  without_variable(add_repeated(
      *command, "--photo", "PHOTO", options->photos,
      "Photo that the results should also resemble: a name in OUT or a file; may be repeated"));
  add_real(*command, "--photo-weight", "W", {0, 1000, true}, options->photo_weight,
           "Weight of each such photo, relative to the text");
  without_variable(add_repeated(*command, "--not", "TEXT", options->avoided_texts,
                                "Text for what the results should not show; may be repeated"));
  add_real(*command, "--not-weight", "W", {0, 1000, true}, options->not_weight,
           "Weight of each such text");
  add_text_clean(*command, options->clean);
  without_variable(
      add_flag(*command, "--print0", options->print0,
               "Print only the names of the photos, each followed by a NUL byte, for xargs -0"))
      ->group(kReportGroup);
  CLI::Option* page = add_report_options(*command, *options);
  without_variable(add_flag(*command, "--heat", options->heat,
                            "Draw heat maps of the text over the pictures of the page"))
      ->needs(page)
      ->group(kReportGroup);
  explain(*command,
          {"Scores are cosines between a photo and a text, which are low even for good matches. "
           "The second column is SigLIP's probability that they belong together; pairs are scored "
           "independently.",
           "Each text is a separate search. Photos of --photo and texts of --not are part of every "
           "search: the query is the weighted sum of the unit vectors, with those of --not "
           "subtracted. Such a query has no probabilities.",
           kTextLists},
          {"fovea search \"a red bicycle in the snow\" --in OUT",
           "fovea search \"a red bicycle\" --in OUT --print0 | xargs -0 ls -l --",
           "fovea search \"at night\" --photo cat.jpg --not people --in OUT",
           "fovea search @captions.txt --in OUT --json=found.json"});
  command->callback([command, options, &run] {
    if (options->photos.empty()) {
      reject_if_typed(*command, {"--max-pixels"}, "has no effect without --photo");
    }
    if (options->print0 && options->json.to_stdout()) {
      reject_if_typed(*command, {"--json"}, "and --print0 both print their result: choose one");
      options->json = {};
    }
    run = [options] {
      std::optional<Search> search;  // must outlive make_and_write_page(), which uses its encoder
      make_and_write_page(options->html, options->threads, [&](PageNotes& notes) {
        search.emplace(*options);
        return search->run(notes);
      });
      return kDone;
    };
  });
}

}  // namespace fovea::cli
