// A program for the tests against transformers: writes the small tokenizer.
//   small_tokenizer_tool FOLDER [PIECES]
#include <cstdlib>
#include <iostream>

#include "fovea/error.hpp"
#include "text/small_tokenizer.hpp"

int main(int argc, char** argv) {
  try {
    if (argc == 2) {
      fovea::text::write_small_tokenizer(argv[1]);
    } else if (argc == 3) {
      fovea::text::write_small_tokenizer(argv[1], std::atoll(argv[2]));
    } else {
      std::cerr << "small_tokenizer_tool FOLDER [PIECES]\n";
      return 2;
    }
  } catch (const fovea::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
