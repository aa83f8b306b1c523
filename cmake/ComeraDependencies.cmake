# Everything from outside. torch is the pip package of the Python given by COMERA_PYTHON (the Makefile sets it).
# Always fmt::fmt-header-only: torch brings headers of another fmt, which no library of the system matches.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
# Trains tokenizers at run time, as a program: its library cannot be in one process with torch (sentencepiece_train.cpp).
find_program(COMERA_SPM_TRAIN spm_train REQUIRED)

set(COMERA_PYTHON "" CACHE FILEPATH "Python whose torch package is used")
if(NOT Torch_DIR AND COMERA_PYTHON)
  execute_process(
    COMMAND ${COMERA_PYTHON} -c "import torch; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${COMERA_PYTHON} cannot import torch. Run `make build`, which sets up an environment "
                        "with torch, or give a Python that has it: PYTHON=/path/to/python make build")
  endif()
  list(APPEND CMAKE_PREFIX_PATH ${torch_prefix})
endif()
find_package(Torch REQUIRED)
if(Torch_VERSION AND Torch_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "comera needs torch 2.11 or later, found ${Torch_VERSION}")
endif()
