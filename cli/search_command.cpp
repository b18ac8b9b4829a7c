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
  std::vector<std::string> without;
  double not_weight = 1;
  std::string clean = "auto";
  bool heat = false;

  [[nodiscard]] bool combines() const { return !photos.empty() || !without.empty(); }
};

class Search : private NeighbourSearch {
 public:
  explicit Search(const SearchOptions& options)
      : NeighbourSearch(options, options.device),
        options_(options),
        texts_(read_texts(options.texts)) {}

  Page run(PageNotes& notes) {
    if (texts_.empty()) {
      throw Error("the lists hold no text to search for");
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
        fmt::format("The {} best of {}", options_.k, count_of(collection_.rows(), "photo")) +
        where_searched();
    if (options_.heat) {
      for (std::size_t i = 0; i < page.sections.size(); ++i) {
        page.sections[i].heat = std::move(text_vectors_[i]);
      }
      notes.encoder = &encoder();
    }
    return page;
  }

 private:
  /// Each photo once, in the order of the texts and then of the scores.
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
          print_file0(photo);
        }
      }
    }
    if (members > 0) {
      say(fmt::format("{} not printed, because archives hold them", count_of(members, "photo")));
    }
  }

  /// Returns float [texts, dimension]: the unit vector of each text plus the weighted unit vectors
  /// of
  /// --photo, minus those of --not.
  std::vector<float> query_vectors() {
    std::vector<std::string> all = texts_;
    all.insert(all.end(), options_.without.begin(), options_.without.end());
    EmbedTextsOptions embedding;
    embedding.clean = text_clean(options_.clean);
    embedding.on_note = [](std::string_view note) { say(note); };
    std::vector<float> vectors = encoder().embed_texts(all, embedding);
    check_dimension(encoder().dimension(), model());
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      const auto from = vectors.begin() + static_cast<std::ptrdiff_t>(i) * encoder().dimension();
      text_vectors_.emplace_back(from, from + encoder().dimension());
    }
    const auto width = static_cast<std::size_t>(collection_.dimension());
    std::vector<QueryTerm> terms;
    for (std::size_t i = texts_.size(); i < all.size(); ++i) {
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
      for (const std::string& avoided : options_.without) {
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
      refuse_name(name);
    }
    return encoder().embed_file(name, true, options_.max_pixels);
  }

  Encoder& encoder() {
    if (!encoder_) {
      if (model().empty()) {
        throw Error(fmt::format("no manifest.json in {} names the model: give it with -m",
                                names_of(collection_.outputs())));
      }
      encoder_.emplace(model(), encoder_options(Tower::kTexts));
      tell_device(encoder_->device());
    }
    return *encoder_;
  }

  const SearchOptions& options_;
  std::vector<std::string> texts_;
  std::vector<Query> queries_;
  std::vector<std::vector<float>> text_vectors_;  // one per text, without --photo and --not
};

}  // namespace

void add_search(CLI::App& app, Run& run) {
  const auto options = std::make_shared<SearchOptions>();
  CLI::App* command = app.add_subcommand("search", "Find photos by words in the output of `embed`");
  add_texts(*command, "TEXT", options->texts,
            "What to look for, such as \"a red bicycle in the snow\", or lists: @FILE, -")
      ->required();
  add_collection_options(*command, *options,
                         "Model for the texts (default: the model that made OUT)");
  without_variable(
      add_repeated(*command, "--photo", "PHOTO", options->photos,
                   "A photo that the results should be like as well: a name in OUT or a file; may "
                   "be repeated"));
  add_real(*command, "--photo-weight", "W", {0, 1000, true}, options->photo_weight,
           "Weight of each such photo, where a text has 1");
  without_variable(add_repeated(*command, "--not", "TEXT", options->without,
                                "Words for what the results should not show; may be repeated"));
  add_real(*command, "--not-weight", "W", {0, 1000, true}, options->not_weight,
           "Weight of each such text");
  add_text_clean(*command, options->clean);
  without_variable(add_flag(*command, "--print0", options->print0,
                            "Print the names of the photos alone, and a NUL byte after each, for "
                            "xargs -0"))
      ->group(kReportGroup);
  CLI::Option* page = add_report_options(*command, *options);
  without_variable(add_flag(*command, "--heat", options->heat,
                            "Draw heat maps of the text over the pictures of the page"))
      ->needs(page)
      ->group(kReportGroup);
  explain(*command,
          {"Scores are cosines of a photo and a text, which are low even for the right one. The "
           "second column is SigLIP's probability that they belong together, each pair by itself.",
           "Each text is a search of its own. Photos of --photo and texts of --not take part in "
           "all of them: the query is the sum of the unit vectors times their weights, those of "
           "--not subtracted. Such a query has no probability.",
           kTextLists},
          {"fovea search \"a red bicycle in the snow\" --in OUT",
           "fovea search \"a red bicycle\" --in OUT --print0 | xargs -0 ls -l --",
           "fovea search \"at night\" --photo cat.jpg --not people --in OUT",
           "fovea search @captions.txt --in OUT --json=found.json"});
  command->callback([command, options, &run] {
    if (options->photos.empty()) {
      refuse_typed(*command, {"--max-pixels"},
                   "applies to photos of --photo: give one, or leave --max-pixels out");
    }
    if (options->print0 && options->json.to_stdout()) {
      refuse_typed(*command, {"--json"}, "and --print0 both print their result: choose one");
      options->json = {};
    }
    run = [options] {
      std::optional<Search> search;  // outlives with_page(), which uses its encoder
      with_page(options->html, options->threads, [&](PageNotes& notes) {
        search.emplace(*options);
        return search->run(notes);
      });
      return kDone;
    };
  });
}

}  // namespace fovea::cli
