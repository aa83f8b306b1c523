# Compile through ccache when it is there. The sloppiness lets it cache files that use a precompiled header.
find_program(COMERA_CCACHE ccache)
if(COMERA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${COMERA_CCACHE})
  add_compile_options(-fpch-preprocess)
endif()
