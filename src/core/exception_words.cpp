// Messages for exceptions of the standard library.
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>

#include <fmt/format.h>

#include "core/error.hpp"
#include "fovea/error.hpp"

namespace fovea {

std::string current_exception_message() {
  try {
    throw;
  } catch (const Error& error) {
    return error.what();
  } catch (const std::bad_alloc&) {
    return "not enough memory; free some, raise the limit, or use fewer threads or smaller batches";
  } catch (const std::length_error&) {
    return "not enough memory: the requested size exceeds the address space";
  } catch (const std::filesystem::filesystem_error& error) {
    return fmt::format("{}: {}", error.path1().native(), error.code().message());
  } catch (const std::exception& error) {
    return fmt::format("internal error: {}", error.what());
  } catch (...) {
    return "internal error: unknown exception";
  }
}

}  // namespace fovea
