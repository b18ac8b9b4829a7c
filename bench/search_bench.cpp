// Times searches of an open collection: search_bench OUT QUERIES.npy K TIMES never|auto|always
// [THREADS]. Prints one JSON object: the time to open, of each search, and what the last one found.
#include <chrono>
#include <ctime>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "fovea/error.hpp"
#include "fovea/search.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int run(const std::vector<std::string>& arguments) {
  const std::map<std::string, fovea::RowsInMemory> ways{{"never", fovea::RowsInMemory::kNever},
                                                        {"auto", fovea::RowsInMemory::kAuto},
                                                        {"always", fovea::RowsInMemory::kAlways}};
  if (arguments.size() < 5 || !ways.contains(arguments[4])) {
    std::cerr << "usage: search_bench OUT QUERIES.npy K TIMES never|auto|always [THREADS]\n";
    return 2;
  }
  const int k = std::stoi(arguments[2]);
  const int times = std::stoi(arguments[3]);
  const fovea::Vectors queries = fovea::read_vectors(arguments[1]);
  const auto start = Clock::now();
  const fovea::Collection collection({arguments[0]},
                                     {.threads = arguments.size() > 5 ? std::stoi(arguments[5]) : 0,
                                      .root = {},
                                      .on_progress = {},
                                      .rows_in_memory = ways.at(arguments[4])});
  nlohmann::ordered_json told{{"rows", collection.rows()}, {"open_seconds", seconds_since(start)}};
  std::vector<std::vector<fovea::Match>> found;
  for (int time = 0; time < times; ++time) {
    const auto before = Clock::now();
    const std::clock_t worked = std::clock();
    found = collection.nearest(queries.values, k);
    told["search_seconds"].push_back(seconds_since(before));
    told["cpu_seconds"].push_back(static_cast<double>(std::clock() - worked) / CLOCKS_PER_SEC);
  }
  for (const std::vector<fovea::Match>& matches : found) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    nlohmann::ordered_json scores = nlohmann::ordered_json::array();
    for (const fovea::Match& match : matches) {
      rows.push_back(match.row);
      scores.push_back(match.score);
    }
    told["found_rows"].push_back(std::move(rows));
    told["found_scores"].push_back(std::move(scores));
  }
  std::cout << told.dump() << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "search_bench: " << error.what() << '\n';
    return 1;
  }
}
