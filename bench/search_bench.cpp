// Searches in a collection that stays open: search_bench OUT K never|auto|always|cuda [THREADS].
// The third argument says whether rows are copied to memory or to the GPU. Each line of standard
// input names a .npy file of queries, and each answer is one line of JSON.
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
using Json = nlohmann::ordered_json;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Json search(const fovea::Collection& collection, const std::string& path, int k) {
  const fovea::Vectors queries = fovea::read_vectors(path);
  const auto start = Clock::now();
  const std::clock_t cpu_start = std::clock();
  const auto found = collection.nearest(queries.values, k);
  Json answer{{"seconds", seconds_since(start)},
              {"cpu_seconds", static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC}};
  for (const std::vector<fovea::Match>& matches : found) {
    Json rows = Json::array();
    Json scores = Json::array();
    for (const fovea::Match& match : matches) {
      rows.push_back(match.row);
      scores.push_back(match.score);
    }
    answer["rows"].push_back(std::move(rows));
    answer["scores"].push_back(std::move(scores));
  }
  return answer;
}

int run(const std::vector<std::string>& arguments) {
  const std::map<std::string, fovea::RowsInMemory> ways{{"never", fovea::RowsInMemory::kNever},
                                                        {"auto", fovea::RowsInMemory::kAuto},
                                                        {"always", fovea::RowsInMemory::kAlways},
                                                        {"cuda", fovea::RowsInMemory::kNever}};
  if (arguments.size() < 3 || !ways.contains(arguments[2])) {
    std::cerr << "usage: search_bench OUT K never|auto|always|cuda [THREADS]\n";
    return 2;
  }
  const auto start = Clock::now();
  const fovea::Collection collection({arguments[0]},
                                     {.threads = arguments.size() > 3 ? std::stoi(arguments[3]) : 0,
                                      .root = {},
                                      .on_progress = {},
                                      .rows_in_memory = ways.at(arguments[2]),
                                      .device = arguments[2] == "cuda" ? "cuda" : "cpu"});
  std::cout << Json{{"rows", collection.rows()}, {"open_seconds", seconds_since(start)}}.dump()
            << std::endl;
  for (std::string path; std::getline(std::cin, path);) {
    std::cout << search(collection, path, std::stoi(arguments[1])).dump() << std::endl;
  }
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
