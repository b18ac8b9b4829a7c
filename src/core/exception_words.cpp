// Messages for exceptions of the standard library.
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>

#include <fmt/format.h>

#include "core/error.hpp"
#include "fovea/error.hpp"

namespace fovea {

std::string words_of_current_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return error.what();
  } catch (const std::bad_alloc&) {
    return "there is not enough memory for this; free some, raise the limit, or ask for fewer "
           "threads and smaller batches";
  } catch (const std::length_error&) {
    return "this is more than memory has room for";
  } catch (const std::filesystem::filesystem_error& error) {
    return fmt::format("{}: {}", error.path1().native(), error.code().message());
  } catch (const std::exception& error) {
    return fmt::format("internal error: {}", error.what());
  } catch (...) {
    return "internal error of an unknown kind";
  }
}

}  // namespace fovea
