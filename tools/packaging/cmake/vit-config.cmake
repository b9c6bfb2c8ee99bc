# find_package(vit) makes vit::vit, the header alone, and vit::static and vit::shared, the compiled
# libraries, if they are installed. Each target that links to vit::vit gets the implementation as a
# source file. All paths begin at the folder of this file, PREFIX/share/vit; PREFIX can therefore be
# moved.
get_filename_component(_vit_prefix "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
if(NOT TARGET vit::vit)
    set(VIT_FOLDER "${_vit_prefix}/include")
    set(VIT_SOURCES "${CMAKE_CURRENT_LIST_DIR}")
    include("${CMAKE_CURRENT_LIST_DIR}/vit-header.cmake")
endif()

# _vit_import(TARGET KIND FILE...): imports the first FILE that exists, and its copy in vcpkg's
# debug build
function(_vit_import target kind)
    set(suffixes lib lib64)
    if(CMAKE_LIBRARY_ARCHITECTURE)
        list(APPEND suffixes "lib/${CMAKE_LIBRARY_ARCHITECTURE}")
    endif()
    foreach(configuration IN ITEMS "" debug)
        unset(file CACHE)
        find_file(file NAMES ${ARGN} PATHS "${_vit_prefix}/${configuration}"
            PATH_SUFFIXES ${suffixes} NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
        if(file AND configuration STREQUAL "")
            add_library(${target} ${kind} IMPORTED GLOBAL)
            set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${file}"
                INTERFACE_INCLUDE_DIRECTORIES "${_vit_prefix}/include"
                INTERFACE_LINK_LIBRARIES Threads::Threads)
        elseif(file)
            set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_DEBUG "${file}")
        endif()
    endforeach()
    unset(file CACHE)
endfunction()

if(NOT TARGET vit::static)
    _vit_import(vit::static STATIC libvit.a vit-static.lib)
endif()
if(NOT TARGET vit::shared AND WIN32) # linked by its import library
    _vit_import(vit::shared UNKNOWN libvit.dll.a vit.lib)
    if(TARGET vit::shared)
        set_property(TARGET vit::shared PROPERTY
            INTERFACE_COMPILE_DEFINITIONS "VIT_API=__declspec(dllimport)")
    endif()
elseif(NOT TARGET vit::shared)
    _vit_import(vit::shared SHARED libvit.so.2 libvit.2.dylib)
    if(TARGET vit::shared AND NOT APPLE)
        set_property(TARGET vit::shared PROPERTY IMPORTED_SONAME libvit.so.2)
    endif()
endif()

foreach(_vit_component IN LISTS vit_FIND_COMPONENTS) # find_package(vit COMPONENTS static)
    if(TARGET vit::${_vit_component})
        set(vit_${_vit_component}_FOUND TRUE)
    elseif(vit_FIND_REQUIRED_${_vit_component})
        set(vit_FOUND FALSE)
        set(vit_NOT_FOUND_MESSAGE "vit.h is installed without vit::${_vit_component}")
    endif()
endforeach()
