# Whether libtorch exports the BLAS it carries (COMERA_TORCH_BLAS), and MKL's thread switch (COMERA_TORCH_MKL).
# Without them products go through torch's own operators.
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
check_cxx_source_compiles("
  extern \"C\" int MKL_Set_Num_Threads_Local(int);
  int main() { return MKL_Set_Num_Threads_Local(1); }" COMERA_TORCH_MKL)
unset(CMAKE_REQUIRED_LIBRARIES)
