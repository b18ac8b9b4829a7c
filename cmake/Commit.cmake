# Writes the source OUTPUT with the commit of the checkout SOURCE, when it has changed. Runs with every build.
find_package(Git QUIET)
set(commit unknown)
if(GIT_FOUND AND EXISTS ${SOURCE}/.git)  # without this check git may find the checkout of an enclosing project
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} describe --always --exclude=* --abbrev=12
                          --dirty=-modified
                  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(found)
    set(commit ${found})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "// Written by cmake/Commit.cmake.
namespace fovea {
extern const char* const built_from_commit;
const char* const built_from_commit = \"${commit}\";
}  // namespace fovea
")
