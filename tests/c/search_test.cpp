// The C interface's collections: answers of the C++ one, handlers that end a search, what is
// refused.
#include "fovea/c/search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fovea/search.hpp"

namespace fovea::c::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kWidth = 48;

struct FreeCollection {
  void operator()(fovea_collection* opened) const { fovea_collection_free(opened); }
};
using CollectionPtr = std::unique_ptr<fovea_collection, FreeCollection>;

class CSearch : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "fovea-c-search-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = fs::canonical(pattern);
    write("a", 70);
    write("b", 3);
    std::ofstream(folder / "b-1.jpg") << "not a photo, and yet a file";
  }
  void TearDown() override { fs::remove_all(folder); }

  // An output of so many random rows, NAME.npy with its index; all values are kept in `values`.
  void write(const std::string& name, std::int64_t rows) {
    std::normal_distribution<float> normal;
    std::string header = fmt::format(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, kWidth);
    header.resize(117, ' ');
    header += '\n';
    std::ofstream file(folder / (name + ".npy"), std::ios::binary);
    file << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header;
    std::ofstream index(folder / (name + ".index.jsonl"));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < kWidth; ++column) {
        const float value = normal(random_);
        file.write(reinterpret_cast<const char*>(&value), sizeof(value));
        values.push_back(value);
      }
      index << fmt::format(
          "{{\"row\": {}, \"source\": \"{}-{}.jpg\", \"width\": 9, \"height\": 7}}\n", row, name,
          row);
    }
  }

  [[nodiscard]] CollectionPtr open(const std::vector<std::string>& names) const {
    std::vector<std::string> paths;
    std::vector<const char*> pointers;
    for (const std::string& name : names) {
      paths.push_back((folder / name).native());
    }
    for (const std::string& path : paths) {
      pointers.push_back(path.c_str());
    }
    fovea_collection* opened = nullptr;
    EXPECT_EQ(fovea_collection_open(pointers.data(), pointers.size(), folder.c_str(), 2, &opened),
              FOVEA_OK)
        << fovea_last_error();
    return CollectionPtr(opened);
  }

  static bool said(std::string_view what) {
    return std::string_view(fovea_last_error()).find(what) != std::string_view::npos;
  }

  // Exits with 0 when the search that ran at the end, or was begun later, says why it fails.
  [[noreturn]] void end_while_searching() const {
    const CollectionPtr opened = open({"a.npy"});
    std::atomic<bool> begun = false;
    std::string why;
    std::thread searcher([&] {
      const auto tell = [](std::int64_t, std::int64_t, void* context) {
        *static_cast<std::atomic<bool>*>(context) = true;
        return 0;
      };
      std::int64_t row = 0;
      double score = 0;
      while (fovea_collection_nearest(opened.get(), values.data(), 1, 1, nullptr, tell, &begun,
                                      &row, &score) == FOVEA_OK) {
      }
      why = fovea_last_error();
    });
    while (!begun) {
      std::this_thread::yield();
    }
    const fovea_status ended = fovea_shut_down(20'000);
    searcher.join();
    const bool told = why.find("the process is ending") != std::string::npos;
    std::_Exit(ended == FOVEA_OK && told ? 0 : 1);
  }

  fs::path folder;
  std::vector<float> values;

 private:
  std::mt19937 random_{std::random_device{}()};
};

TEST_F(CSearch, AnswersAreThoseOfTheCppInterface) {
  const CollectionPtr opened = open({"a.npy", "b.npy"});
  const Collection expected({folder / "a.npy", folder / "b.npy"},
                            {.threads = 1, .root = folder, .on_progress = {}});
  EXPECT_EQ(fovea_collection_rows(opened.get()), 73);
  EXPECT_EQ(fovea_collection_dimension(opened.get()), kWidth);
  EXPECT_STREQ(fovea_collection_model(opened.get()), "");
  EXPECT_EQ(fovea_collection_is_finished(opened.get()), 1);
  constexpr std::int32_t kPlaces = 75;
  const std::vector<float> queries(values.begin() + 3 * kWidth, values.begin() + 5 * kWidth);
  const std::vector<std::int64_t> left_out{-1, 4};
  std::vector<std::int64_t> rows(2 * kPlaces, 99);
  std::vector<double> scores(2 * kPlaces, 99);
  ASSERT_EQ(fovea_collection_nearest(opened.get(), queries.data(), 2, kPlaces, left_out.data(),
                                     nullptr, nullptr, rows.data(), scores.data()),
            FOVEA_OK)
      << fovea_last_error();
  const auto found = expected.nearest(queries, kPlaces, left_out);
  ASSERT_EQ(found[0].size(), 73U);
  ASSERT_EQ(found[1].size(), 72U);
  EXPECT_EQ(rows[0], 3);
  for (std::size_t query = 0; query < 2; ++query) {
    for (std::size_t place = 0; place < kPlaces; ++place) {
      const std::size_t index = query * kPlaces + place;
      if (place < found[query].size()) {
        EXPECT_EQ(rows[index], found[query][place].row);
        EXPECT_EQ(scores[index], found[query][place].score);
      } else {
        EXPECT_EQ(rows[index], -1);
        EXPECT_TRUE(std::isnan(scores[index]));
      }
    }
  }
  ASSERT_EQ(fovea_collection_nearest(opened.get(), queries.data(), 2, 1, nullptr, nullptr, nullptr,
                                     rows.data(), scores.data()),
            FOVEA_OK);
  EXPECT_EQ(rows[1], 4);
  EXPECT_EQ(fovea_collection_nearest(opened.get(), nullptr, 0, 1, nullptr, nullptr, nullptr,
                                     nullptr, nullptr),
            FOVEA_OK);
}

TEST_F(CSearch, CombinedQueriesAreThoseOfTheCppInterface) {
  const std::span<const float> queries = std::span(values).first(3 * kWidth);
  const std::span<const float> terms = std::span(values).subspan(3 * kWidth, 2 * kWidth);
  const std::array<double, 2> weights{0.5, -2};
  const std::vector<float> expected =
      combine_queries(queries, kWidth,
                      std::vector<QueryTerm>{{terms.first(kWidth), 0.5}, {terms.last(kWidth), -2}});
  std::vector<float> combined(expected.size());
  ASSERT_EQ(fovea_queries_combine(queries.data(), 3, kWidth, terms.data(), weights.data(), 2,
                                  combined.data()),
            FOVEA_OK);
  EXPECT_EQ(combined, expected);
  std::ranges::copy(queries, combined.begin());  // in place
  ASSERT_EQ(fovea_queries_combine(combined.data(), 3, kWidth, terms.data(), weights.data(), 2,
                                  combined.data()),
            FOVEA_OK);
  EXPECT_EQ(combined, expected);
  EXPECT_NE(fovea_queries_combine(queries.data(), 3, 0, nullptr, nullptr, 0, combined.data()),
            FOVEA_OK);
  EXPECT_STREQ(fovea_last_error(), "invalid dimension 0; it must be at least 1");
}

TEST_F(CSearch, RowsHaveNamesPhotosAndEmbeddings) {
  const CollectionPtr opened = open({"a.npy", "b.npy"});
  const char* source = nullptr;
  const char* path = nullptr;
  ASSERT_EQ(fovea_collection_source(opened.get(), 71, &source, &path), FOVEA_OK);
  EXPECT_STREQ(source, "b-1.jpg");
  EXPECT_EQ(path, (folder / "b-1.jpg").native());
  fovea_photo photo{};
  ASSERT_EQ(fovea_collection_photo(opened.get(), 71, &photo), FOVEA_OK);
  EXPECT_STREQ(photo.source, "b-1.jpg");
  EXPECT_EQ(photo.path, (folder / "b-1.jpg").native());
  EXPECT_STREQ(photo.captured, "");
  EXPECT_STREQ(photo.error, "");
  EXPECT_EQ(photo.output, 1);
  EXPECT_EQ(photo.bytes, 27);
  EXPECT_EQ(photo.has_modified, 1);
  EXPECT_GT(photo.modified, 1'600'000'000);
  EXPECT_EQ(photo.width, 9);
  EXPECT_EQ(photo.height, 7);
  EXPECT_EQ(photo.is_member, 0);
  ASSERT_EQ(fovea_collection_photo(opened.get(), 0, &photo), FOVEA_OK);
  EXPECT_STRNE(photo.error, "");
  EXPECT_EQ(photo.bytes, -1);
  EXPECT_EQ(photo.has_modified, 0);
  std::int64_t row = 0;
  ASSERT_EQ(fovea_collection_find(opened.get(), "b-1.jpg", &row), FOVEA_OK);
  EXPECT_EQ(row, 71);
  ASSERT_EQ(fovea_collection_find(opened.get(), (folder / "b-1.jpg").c_str(), &row), FOVEA_OK);
  EXPECT_EQ(row, 71);
  ASSERT_EQ(fovea_collection_find(opened.get(), "c-1.jpg", &row), FOVEA_OK);
  EXPECT_EQ(row, -1);
  // Rows of both outputs.
  std::vector<float> out(4 * kWidth);
  ASSERT_EQ(fovea_collection_embeddings(opened.get(), 68, 4, out.data()), FOVEA_OK);
  EXPECT_EQ(out, std::vector<float>(values.begin() + 68 * kWidth, values.begin() + 72 * kWidth));
  EXPECT_EQ(fovea_collection_embeddings(opened.get(), 73, 0, nullptr), FOVEA_OK);
}

TEST_F(CSearch, MessagesSayWhatIsWrong) {
  const CollectionPtr opened = open({"a.npy"});
  fovea_collection* another = nullptr;
  const std::string absent = (folder / "absent").native();
  const char* const paths[] = {absent.c_str(), nullptr};
  EXPECT_EQ(fovea_collection_open(paths, 1, nullptr, 0, &another), FOVEA_FAILED);
  EXPECT_TRUE(said(absent));
  EXPECT_EQ(fovea_collection_open(paths + 1, 1, nullptr, 0, &another), FOVEA_FAILED);
  EXPECT_TRUE(said("is NULL"));
  EXPECT_EQ(fovea_collection_open(paths, 0, nullptr, 0, &another), FOVEA_FAILED);
  EXPECT_TRUE(said("at least one output"));
  EXPECT_EQ(fovea_collection_open(paths, 1, nullptr, -1, &another), FOVEA_FAILED);
  EXPECT_TRUE(said("threads -1"));
  EXPECT_EQ(another, nullptr);
  std::vector<float> query(kWidth, 1.0F);
  std::int64_t row = 5;
  double score = 5;
  const auto nearest = [&](const float* vector, std::int32_t k) {
    return fovea_collection_nearest(opened.get(), vector, 1, k, nullptr, nullptr, nullptr, &row,
                                    &score);
  };
  EXPECT_EQ(nearest(query.data(), 0), FOVEA_FAILED);
  EXPECT_TRUE(said("at least 1"));
  EXPECT_EQ(nearest(nullptr, 1), FOVEA_FAILED);
  EXPECT_TRUE(said("queries is NULL"));
  query[7] = std::nanf("");
  EXPECT_EQ(nearest(query.data(), 1), FOVEA_FAILED);
  EXPECT_EQ(row, 5);
  EXPECT_EQ(score, 5);
  for (const auto& [first, count] : {std::pair{-1, 1}, {69, 2}, {0, 71}, {0, -1}, {71, 0}}) {
    EXPECT_EQ(fovea_collection_embeddings(opened.get(), first, count, query.data()), FOVEA_FAILED)
        << first << ' ' << count;
  }
  const char* text = nullptr;
  EXPECT_EQ(fovea_collection_source(opened.get(), 70, &text, &text), FOVEA_FAILED);
  EXPECT_TRUE(said("70"));
}

TEST_F(CSearch, HandlersEndASearch) {
  const CollectionPtr opened = open({"a.npy"});
  std::vector<std::int64_t> rows(70);
  std::vector<double> scores(70);
  struct Told {
    int calls = 0;
    std::int64_t total = 0;
    std::int32_t answer = 0;
  } told;
  const auto handler = [](std::int64_t, std::int64_t total, void* context) {
    auto& heard = *static_cast<Told*>(context);
    ++heard.calls;
    heard.total = total;
    return heard.answer;
  };
  const auto search = [&] {
    return fovea_collection_nearest(opened.get(), values.data(), 1, 70, nullptr, handler, &told,
                                    rows.data(), scores.data());
  };
  ASSERT_EQ(search(), FOVEA_OK) << fovea_last_error();
  EXPECT_GE(told.calls, 1);
  EXPECT_EQ(told.total, 70);
  told.answer = 1;
  EXPECT_EQ(search(), FOVEA_FAILED);
  EXPECT_STREQ(fovea_last_error(), "interrupted");
  told.answer = 0;
  ASSERT_EQ(search(), FOVEA_OK) << "the next search has its turn";
  EXPECT_EQ(rows[0], 0);
}

// The first search does not end before the second one has waited for its turn and given up.
TEST_F(CSearch, AWaitingSearchIsEndedToo) {
  const CollectionPtr opened = open({"a.npy"});
  struct Turn {
    std::atomic<bool> begun = false;
    std::atomic<bool> may_end = false;
  } turn;
  const auto search = [&](fovea_search_handler handler) {
    std::int64_t row = -7;
    double score = 0;
    const fovea_status status = fovea_collection_nearest(opened.get(), values.data(), 1, 1, nullptr,
                                                         handler, &turn, &row, &score);
    return status == FOVEA_OK ? row : -9;
  };
  std::int64_t first = 0;
  std::thread searcher([&] {
    first = search([](std::int64_t, std::int64_t, void* context) {
      auto& shared = *static_cast<Turn*>(context);
      shared.begun = true;
      while (!shared.may_end) {
        std::this_thread::yield();
      }
      return 0;
    });
  });
  while (!turn.begun) {
    std::this_thread::yield();
  }
  EXPECT_EQ(search([](std::int64_t done, std::int64_t, void*) { return done == 0 ? 1 : 0; }), -9);
  EXPECT_STREQ(fovea_last_error(), "interrupted");
  turn.may_end = true;
  searcher.join();
  EXPECT_EQ(first, 0);
}

TEST_F(CSearch, ForkedChildrenAreTold) {
  const CollectionPtr opened = open({"a.npy"});
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    std::int64_t row = 0;
    double score = 0;
    const bool refused = fovea_collection_nearest(opened.get(), values.data(), 1, 1, nullptr,
                                                  nullptr, nullptr, &row, &score) == FOVEA_FAILED &&
                         said("this collection belongs to the parent of this process");
    fovea_collection_free(opened.get());  // does nothing here
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(CSearch, TheEndOfAProcessEndsSearches) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_while_searching(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace fovea::c::testing
