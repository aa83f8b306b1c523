# Whether libtorch exports the BLAS it carries (COMERA_TORCH_BLAS); without it products go through torch's operators.
include(CheckCXXSourceCompiles)
# The file rather than the target: torch's targets need others that a compile check does not know.
foreach(property IMPORTED_LOCATION_RELEASE IMPORTED_LOCATION)
  get_target_property(torch_cpu_file torch_cpu ${property})
  if(torch_cpu_file)
    break()
  endif()
endforeach()
set(CMAKE_REQUIRED_LIBRARIES ${torch_cpu_file})
check_cxx_source_compiles("
  extern \"C\" { void sgemm_(); void dgemm_(); }
  int main() { sgemm_(); dgemm_(); }" COMERA_TORCH_BLAS)
unset(CMAKE_REQUIRED_LIBRARIES)
