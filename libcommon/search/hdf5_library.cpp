// The functions and numbers of HDF5 that search/hdf5_file.cpp uses, each handed on to Debian's
// library, which is opened by the first of them: it brings thirty others, of networks most of them,
// which a program that only says what it does would wait for.
#include <hdf5.h>

#include "base/error.h"
#include "base/shared_library.h"

static void* in_library(const char* name) {
  static const mt::SharedLibrary library({"libhdf5_serial.so.103", "libhdf5.so.103"},
                                         "Retro's projects need HDF5 1.10: install it "
                                         "(libhdf5-103-1), or name its folder in LD_LIBRARY_PATH");
  return library.symbol(name);
}

// The library's function of our function's type and name.
template <auto* kOurs>
static auto* theirs(const char* name) {
  static const auto found = reinterpret_cast<decltype(kOurs)>(in_library(name));
  return found;
}

// What the macros of hdf5.h read behind H5open().
hid_t H5P_CLS_DATASET_CREATE_ID_g, H5P_CLS_FILE_ACCESS_ID_g, H5T_IEEE_F32LE_g, H5T_NATIVE_FLOAT_g,
    H5T_NATIVE_INT64_g, H5T_NATIVE_UINT32_g, H5T_NATIVE_UINT64_g, H5T_NATIVE_UINT8_g,
    H5T_STD_I64LE_g, H5T_STD_U32LE_g, H5T_STD_U64LE_g, H5T_STD_U8LE_g;

herr_t H5open() {
  static const herr_t opened = [] {
    // At the end of the program nothing is open any more, or cannot be closed.
    theirs<H5dont_atexit>("H5dont_atexit")();
    const herr_t result = theirs<H5open>("H5open")();
    const auto take = [](hid_t& number, const char* name) {
      number = *static_cast<const hid_t*>(in_library(name));
    };
    take(H5P_CLS_DATASET_CREATE_ID_g, "H5P_CLS_DATASET_CREATE_ID_g");
    take(H5P_CLS_FILE_ACCESS_ID_g, "H5P_CLS_FILE_ACCESS_ID_g");
    take(H5T_IEEE_F32LE_g, "H5T_IEEE_F32LE_g");
    take(H5T_NATIVE_FLOAT_g, "H5T_NATIVE_FLOAT_g");
    take(H5T_NATIVE_INT64_g, "H5T_NATIVE_INT64_g");
    take(H5T_NATIVE_UINT32_g, "H5T_NATIVE_UINT32_g");
    take(H5T_NATIVE_UINT64_g, "H5T_NATIVE_UINT64_g");
    take(H5T_NATIVE_UINT8_g, "H5T_NATIVE_UINT8_g");
    take(H5T_STD_I64LE_g, "H5T_STD_I64LE_g");
    take(H5T_STD_U32LE_g, "H5T_STD_U32LE_g");
    take(H5T_STD_U64LE_g, "H5T_STD_U64LE_g");
    take(H5T_STD_U8LE_g, "H5T_STD_U8LE_g");
    return result;
  }();
  return opened;
}

// Which versions fit, the library's name says; its own function ends the program where it is not
// the one of the headers.
herr_t H5check_version(unsigned, unsigned, unsigned) { return 0; }

herr_t H5Dclose(hid_t dset_id) { return theirs<H5Dclose>(__func__)(dset_id); }

hid_t H5Dcreate2(hid_t loc_id, const char* name, hid_t type_id, hid_t space_id, hid_t lcpl_id,
                 hid_t dcpl_id, hid_t dapl_id) {
  return theirs<H5Dcreate2>(__func__)(loc_id, name, type_id, space_id, lcpl_id, dcpl_id, dapl_id);
}

hid_t H5Dget_space(hid_t dset_id) { return theirs<H5Dget_space>(__func__)(dset_id); }

hid_t H5Dget_type(hid_t dset_id) { return theirs<H5Dget_type>(__func__)(dset_id); }

hid_t H5Dopen2(hid_t loc_id, const char* name, hid_t dapl_id) {
  return theirs<H5Dopen2>(__func__)(loc_id, name, dapl_id);
}

herr_t H5Dread(hid_t dset_id, hid_t mem_type_id, hid_t mem_space_id, hid_t file_space_id,
               hid_t dxpl_id, void* buf) {
  return theirs<H5Dread>(__func__)(dset_id, mem_type_id, mem_space_id, file_space_id, dxpl_id, buf);
}

herr_t H5Dwrite(hid_t dset_id, hid_t mem_type_id, hid_t mem_space_id, hid_t file_space_id,
                hid_t dxpl_id, const void* buf) {
  return theirs<H5Dwrite>(__func__)(dset_id, mem_type_id, mem_space_id, file_space_id, dxpl_id,
                                    buf);
}

herr_t H5Eset_auto2(hid_t estack_id, H5E_auto2_t func, void* client_data) {
  return theirs<H5Eset_auto2>(__func__)(estack_id, func, client_data);
}

herr_t H5Fclose(hid_t file_id) { return theirs<H5Fclose>(__func__)(file_id); }

hid_t H5Fcreate(const char* filename, unsigned flags, hid_t fcpl_id, hid_t fapl_id) {
  return theirs<H5Fcreate>(__func__)(filename, flags, fcpl_id, fapl_id);
}

hid_t H5Fopen(const char* filename, unsigned flags, hid_t fapl_id) {
  return theirs<H5Fopen>(__func__)(filename, flags, fapl_id);
}

herr_t H5Pclose(hid_t plist_id) { return theirs<H5Pclose>(__func__)(plist_id); }

hid_t H5Pcreate(hid_t cls_id) { return theirs<H5Pcreate>(__func__)(cls_id); }

herr_t H5Pset_file_locking(hid_t fapl_id, hbool_t use_file_locking, hbool_t ignore_when_disabled) {
  return theirs<H5Pset_file_locking>(__func__)(fapl_id, use_file_locking, ignore_when_disabled);
}

herr_t H5Pset_obj_track_times(hid_t plist_id, hbool_t track_times) {
  return theirs<H5Pset_obj_track_times>(__func__)(plist_id, track_times);
}

herr_t H5Sclose(hid_t space_id) { return theirs<H5Sclose>(__func__)(space_id); }

hid_t H5Screate_simple(int rank, const hsize_t dims[], const hsize_t maxdims[]) {
  return theirs<H5Screate_simple>(__func__)(rank, dims, maxdims);
}

int H5Sget_simple_extent_dims(hid_t space_id, hsize_t dims[], hsize_t maxdims[]) {
  return theirs<H5Sget_simple_extent_dims>(__func__)(space_id, dims, maxdims);
}

int H5Sget_simple_extent_ndims(hid_t space_id) {
  return theirs<H5Sget_simple_extent_ndims>(__func__)(space_id);
}

herr_t H5Sselect_hyperslab(hid_t space_id, H5S_seloper_t op, const hsize_t start[],
                           const hsize_t stride[], const hsize_t count[], const hsize_t block[]) {
  return theirs<H5Sselect_hyperslab>(__func__)(space_id, op, start, stride, count, block);
}

herr_t H5Tclose(hid_t type_id) { return theirs<H5Tclose>(__func__)(type_id); }

H5T_class_t H5Tget_class(hid_t type_id) { return theirs<H5Tget_class>(__func__)(type_id); }

H5T_sign_t H5Tget_sign(hid_t type_id) { return theirs<H5Tget_sign>(__func__)(type_id); }

size_t H5Tget_size(hid_t type_id) { return theirs<H5Tget_size>(__func__)(type_id); }
