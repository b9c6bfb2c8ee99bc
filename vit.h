/* vit.h - v2.0.0 - Vision Transformer inference in a single C99 header
                    no dependencies, no global state; MIT license at end of file

   DO THIS once, in exactly one .c or .cpp file:

      #define VIT_IMPLEMENTATION
      #include "vit.h"

   Everywhere else, include it plainly for the declarations.

   QUICK START

      #define VIT_IMPLEMENTATION
      #include "vit.h"
      #include <stdio.h>

      int main(void) {
          static const uint8_t pixels[32 * 32 * 3]; // your photo: rows of r, g, b bytes
          vit_image photo = { pixels, 32, 32, 0, VIT_PIXEL_RGB8 };
          vit_prediction top;
          vit_model model;
          if (vit_model_open("models/cifar10-vit.vit", 0, &model)) return puts(model.detail), 1;
          if (vit_classify(&model, &photo, 1, &top)) return 1;
          printf("%s %.1f%%\n", vit_label(&model, top.index), 100.0 * (double)top.score);
          vit_model_close(&model);
      }

   CONTENTS   (each heading carries a tag; search for it, e.g. ">>tiles")

      >>manual      concepts, memory, threads, determinism, configuration macros, limits
      >>api         results, model, image, session, outputs, helpers

      >>tools       tensors, packing, checksums: declared if VIT_TOOLS is defined
      >>format      the .vit file, byte for byte

      >>extending   places to change for another option, activation, instruction set ...
      >>platform    compiler and CPU facts, allocation
      >>util        little-endian loads, messages, checksum, half floats
      >>arch        the layers of an architecture and their tensors, by name
      >>load        mapping and validating a model
      >>threads     the optional built-in pool
      >>math        fma and the square root of plain C
      >>kernels     the table of functions that the layers call
      >>tiles       how a matrix product is made of tiles in registers
      >>body        every kernel, once: softmax, norms, GELU, tiles ...
      >>words       the instruction sets: what each can do, and the tiles it has
      >>dispatch    which kernels run on this machine
      >>resample    positions for another grid, vit_model_resize, scaling of photos
      >>preprocess  cropping, padding and normalising a photo

      >>layers      weights by name, linear layers, norms
      >>stem        the convolutions in front of a hybrid
      >>embed       patches to tokens: patch embedding, prefix tokens, positions
      >>attention   softmax(q k^T) v, head by head
      >>block       the transformer block: start at its last function, vit__block
      >>head        final norm, pooling, embedding, logits; softmax, top-k
      >>workspace   the memory of a session, measured and taken
      >>forward     vit_forward: all of it, top to bottom; self-test, vit_classify
      >>text        texts to ids, if VIT_TEXT_ENCODER is defined
*/

/* ------------------------------------------------------------------------- */
/* >>manual                                                                  */
/* ------------------------------------------------------------------------- */

/* CONCEPTS

   A *model* is an open .vit file: weights, architecture, preprocessing and labels. It is read-only,
   so any number of threads may share it. A *session* holds everything a forward pass writes to;
   threads that run a model at the same time need one each. `vit-convert` makes .vit files from
   PyTorch and safetensors checkpoints.

      easy     vit_classify, vit_embed    photo   ->  the best classes, embedding
      usual    vit_run, of a session      photos  ->  probabilities, embeddings
      expert   vit_preprocess             photo   ->  input  [in_chans, img_height, img_width]
               vit_forward                input   ->  logits, embedding, tokens, attention
               vit_scores, vit_top_k                  probabilities, the best k
               vit_normalize, vit_cosine              embeddings compared

   vit_model_resize sets the input size of models marked dynamic_img_size.

   Compile with -O2. clang's unoptimised code takes some 60 times as long. No other flag is needed:
   every build holds the kernels of all instruction sets and chooses among them at run time.

   MEMORY

   vit_model_open maps the file. Weights are used in place, and processes that open the same file
   share its pages. A session allocates its memory once, or takes exactly vit_workspace_size bytes
   from the caller. vit_forward never allocates. A program allocates nothing if it brings the
   workspace, the scratch for vit_preprocess and an executor, and maps the file or holds it in
   memory. vit_params.low_memory more than halves the workspace and keeps the bits: ViT-Ti/16 at 224
   px needs 404 KiB instead of 992. In int8 it needs 257 KiB but computes keys and values five
   times. (Figures of the plain C tier; others need a few KiB more.)

   Never change or truncate a file while it is mapped (SIGBUS). Replace model files by renaming a
   new one over the old name, as vit-convert does, or open with VIT_OPEN_COPY. VIT_OPEN_VERIFY
   compares checksums once, when opening. Checksums detect damage, not forgery; vit-info --sha256
   detects both.

   THREADS

   The library starts no threads unless told to. vit_threads_create makes a pool and fills in a
   vit_executor for vit_params. A program with threads of its own can supply a parallel_for instead.
   Sessions may share a pool. After fork(), the child must create a new pool. WebAssembly cannot
   start threads; examples/web/vit has a pool of JavaScript workers.

   ARITHMETIC   (chosen per file: vit-convert --dtype)

      f32    the reference.
      f16    half-size weights, widened exactly, computed in f32.
      bf16   weights and the inputs of each matrix product are rounded to bf16; products are exact,
             sums f32. Twice as fast as f32 with AVX512-BF16. Elsewhere it is widened to f32 and
             runs at the same speed.
      int8   int8 weights, one scale per output. The inputs of a layer are quantised to 8 bits,
             token by token; sums are exact. Attention multiplies integers of at most 16 bits, again
             with exact sums; the rest is f32. Three times as fast as f32 with VNNI. With AVX2 it is
             twice as fast if vit-convert calibrated the file, otherwise a third faster. NaN and
             infinity are not propagated.
      int4   4 bits per weight, an f16 scale per 32 weights; inputs and attention are those of int8.
             A sum over 32 weights is exact, then scaled and added in f32. Half the size of int8,
             and at least as fast as uncalibrated int8.

   The residual stream, norms, softmax and activations are always f32. Each tensor has its own type.
   vit-convert keeps the patch embedding in f32 in bf16 files and in f16 in int8 and int4 files.
   Tensors named with --keep become bf16 in int8 files and int8 in int4 files.

   A COMPILED LIBRARY

   `make install`, or CMake in tools/packaging/cmake, also makes libvit.a and libvit.so.2, which
   export the functions declared here. Programs include vit.h without VIT_IMPLEMENTATION and link to
   the library. The layout of shared structs stays until libvit.so.3 (tests/abi/list.txt). New
   members may take the place of `reserved`; older programs leave them zero, which means "as
   before". Structs without `reserved`, and enums, never change. So a program runs with any later
   library. The open functions refuse a program built against a later vit.h, or with macros
   (VIT_MAX_CHANS, VIT_NO_TEXT, VIT_BARE_METAL) that change the size of vit_model. They return
   VIT_ERROR_ABI, and detail has the expected and the found values. Functions that take only a
   vit_config cannot check this.

   VERSIONS

   MAJOR.MINOR.PATCH. Functions, structs and macros keep their names and meaning up to 3.0.0. The
   library reads .vit files of every version since 0.1.0, except int4 of 0.1.0. Outputs of f32, f16
   and bf16 models keep their bits; a MINOR version may change those of int8 and int4, and announces
   it. Names that begin with vit__, members marked private and the texts in detail may change at any
   time. tools/packaging/README.md has the rest; .github/CHANGELOG.md lists what to change in
   programs written for 1.0.0.

   DETERMINISM

   Every sum has a fixed order. A matrix product is one chain of fused multiply-adds over the inner
   index. Reductions of a row use 16 fixed lanes and one fixed tree. Reductions over tokens and
   pixels (pooling, group norm) go from the first to the last. exp, erf and tanh are fixed sequences
   of operations. So outputs have the same bits for any number of threads, any place in a batch, any
   run, and every instruction set with fused multiply-add. x86 CPUs without AVX2 and FMA multiply,
   then add (VIT_ISA_SSE2), so their last bits differ; VIT_NO_FMA has the same effect on plain C.
   vit_session.isa names the tier. The plain C tier (VIT_ISA_SCALAR) emulates fused multiply-add on
   CPUs without it, which keeps the usual bits but takes some 60 times as long; VIT_NO_FMA trades
   the bits for speed. WebAssembly has no fused multiply-add and implies VIT_NO_FMA. With or without
   SIMD128 its bits equal those of a plain C tier built with VIT_NO_FMA on any CPU (gcc also needs
   -std=c99 or -ffp-contract=off there, or it fuses). Never build with -ffast-math. Exceptions: the
   bf16 instructions and Helium treat values below 2^-126 as zero, and relaxed SIMD in WebAssembly
   may leave products of bf16 below it unrounded.

   CONFIGURATION   (all optional; define them before the implementation, empty or as 1 where no
                    value is named)

      VIT_IMPLEMENTATION   expand the implementation in this file
      VIT_STATIC           all functions are static: private to this file
      VIT_API              linkage of public functions; default extern
      VIT_TOOLS            declare >>tools and >>format too; define it at every include that uses
                           them
      VIT_TEXT_ENCODER     texts too: vit_tokenize, vit_model_text and others; define it wherever
                           they are used. VIT_BARE_METAL and VIT_FIXED leave them out
      VIT_NO_STDIO         no vit_model_open, no files
      VIT_NO_MMAP          vit_model_open reads instead of mapping
      VIT_NO_MALLOC        no allocation; drops vit_classify, vit_run and other functions that need
                           it
      VIT_NO_THREADS       no built-in pool
      VIT_NO_SIMD          the plain C tier only
      VIT_NO_SSE2, VIT_NO_AVX2, VIT_NO_AVX512   leave out one tier (no AVX2 means no
                           AVX-512)
      VIT_NO_NEON          the plain C tier on 64-bit ARM
      VIT_NO_SMLAD, VIT_NO_HELIUM   leave out one tier of 32-bit ARM
      VIT_NO_WASM_SIMD     the plain C tier in WebAssembly
      VIT_NO_FMA           multiply, then add in the plain C tier; WebAssembly implies it. WASI also
                           implies VIT_NO_MMAP and, without -pthread, VIT_NO_THREADS
      VIT_NO_DOUBLE        no arithmetic in double: pixels from vit_preprocess may differ from
                           Pillow's by one step of 255. Drops vit_model_resize, vit_normalize and
                           vit_cosine, and implies VIT_NO_FMA on CPUs without fused multiply-add
      VIT_NO_PREPROCESS    drops vit_preprocess, vit_classify, vit_run
      VIT_BARE_METAL       VIT_NO_STDIO, _MMAP, _MALLOC and _THREADS in one, and smaller structs:
                           define it wherever vit.h is included
      VIT_NO_F16, VIT_NO_BF16, VIT_NO_INT8, VIT_NO_INT4   leave out a type of weights
      VIT_NO_TEXT          no messages in detail, no labels, no names: tensors are matched
                           by order and shape; define it wherever vit.h is included
      VIT_NO_TRACE         no vit_params.trace or .on_phase
      VIT_LOGITS_ONLY      no vit_outputs.tokens or .blocks, no masks
      VIT_NO_EXECUTOR      no vit_params.executor: all work runs on the calling thread, one image
                           for each vit_forward
      VIT_LOW_MEMORY       always vit_params.low_memory
      VIT_FIXED            builds for one architecture. The value is the name, in capitals, of a
                           header that vit-convert --c-array wrote; include that header first.
                           Unneeded code is left out, files with another vit_model_signature are
                           refused, and vit_model.config stays empty, since it is constant. The code
                           is smallest with VIT_STATIC; without it, define VIT_FIXED wherever vit.h
                           is included
      VIT_MAX_CHANS        limit of in_chans; default 32; define it wherever vit.h is
                           included
      VIT_MALLOC(size), VIT_FREE(ptr)      both or neither; default malloc, free
      VIT_UNOPTIMIZED      for builds without optimisation: suppresses the warning about them, keeps
                           all tiers (otherwise those up to AVX2), and stops gcc from optimising the
                           kernels regardless
      VIT_MAX_THREADS      largest pool; default 256
      VIT_SCALAR           also builds VIT_ISA_SCALAR where a vector tier always runs instead:
                           x86-64, 64-bit ARM, WebAssembly with -msimd128
      VIT_FILE             this file's name in quotes, if it is not "vit.h": it includes itself. gcc
                           since 12 and clang find the name without it

   LIMITS   (all are checked; the message names the one exceeded)

      in_chans 32, image side 16384, patch_size 1024, embed_dim 16384, depth 1024, num_heads 1024,
      head_dim 4096, mlp_dim 262144, num_reg_tokens 1024, num_classes 1048576, num_tokens 65536,
      photo side 1048576, stem_width 512, 99 blocks per stage of a stem, pool_num_heads 1024,
      pool_mlp_dim 262144, vocab_size 1048576, |mean| 65536. The input has fewer than 2^30 values,
      so that its bytes fit a 32-bit size_t. Files above SIZE_MAX bytes are refused.

   PORTABILITY   x86-64 has SSE2, AVX2, AVX-VNNI and AVX-512 kernels (the last also with
   VNNI and BF16) and 64-bit ARM has NEON kernels (also with sdot, smmla and bfmlal); both choose at
   run time. 32-bit x86 has the SSE2 kernels if compiled with -msse2, WebAssembly has kernels if
   compiled with -msimd128. 32-bit ARM chooses when compiling: SMLAD for int8 on Cortex-M4, M7, M33
   and cores since ARMv6, Helium on Cortex-M55 (-mcpu=cortex-m55 -mfloat-abi=hard). All other CPUs
   run the plain C tier. Tested with gcc and clang, with MinGW-w64 and clang in MSVC's dialect under
   Wine (not cl.exe), on ARM only under QEMU, and in WebAssembly with Node. Big-endian CPUs read the
   same little-endian files, in place. The compiler must not evaluate float at higher precision: gcc
   needs -msse2 -mfpmath=sse on 32-bit x86 and, with -std=c99, -fexcess-precision=fast on s390x (an
   #error reports it). */

/* ------------------------------------------------------------------------- */
/* >>api                                                                     */
/* ------------------------------------------------------------------------- */

#ifndef VIT_H
#define VIT_H

#define VIT_VERSION_MAJOR 2
#define VIT_VERSION_MINOR 0
#define VIT_VERSION_PATCH 0
#define VIT_VERSION (VIT_VERSION_MAJOR * 10000 + VIT_VERSION_MINOR * 100 + VIT_VERSION_PATCH)

/* A COMPILED LIBRARY above explains it. Each release that extends a shared struct adds one. A
   library accepts programs that were compiled with VIT_ABI_OLDEST or later. */
#define VIT_ABI 4
#define VIT_ABI_OLDEST 4

#include <stddef.h> /* size_t */
#include <stdint.h> /* uint8_t, uint32_t, uint64_t */

#if defined(VIT_BARE_METAL)
#    define VIT_NO_STDIO
#    define VIT_NO_MMAP
#    define VIT_NO_MALLOC
#    define VIT_NO_THREADS
#endif
#if defined(VIT_BARE_METAL) || defined(VIT_FIXED)
#    undef VIT_TEXT_ENCODER
#endif

/* WebAssembly has no fused multiply-add; WASI cannot map files and has threads only
   with -pthread. */
#if defined(__wasm__) && !defined(VIT_NO_FMA)
#    define VIT_NO_FMA
#endif
#if defined(__wasi__) && !defined(VIT_NO_MMAP)
#    define VIT_NO_MMAP
#endif
#if defined(__wasi__) && !defined(_REENTRANT) && !defined(VIT_NO_THREADS)
#    define VIT_NO_THREADS
#endif

/* Linkage of public functions. With VIT_STATIC, `unused` silences -Wunused-function. */
#ifndef VIT_API
#    if !defined(VIT_STATIC)
#        define VIT_API extern
#    elif defined(__GNUC__)
#        define VIT_API __attribute__((unused)) static
#    elif defined(_MSC_VER)
#        define VIT_API static __inline /* Unused ones cause no warning. */
#    else
#        define VIT_API static
#    endif
#endif

#if defined(_MSC_VER) && !defined(__cplusplus)
#    define VIT_INLINE static __inline
#else
#    define VIT_INLINE static inline
#endif

/* Reserved for new members; must be zero. Omitted in firmware, which links no shared library. */
#if defined(VIT_BARE_METAL) || defined(VIT_FIXED)
#    define VIT_RESERVED(type, n)
#else
#    define VIT_RESERVED(type, n) type reserved[n];
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- results -------------------------------------------------------------- */

/* Zero is success, failures are negative: X(enumerator, value, text). */
#define VIT_RESULT_LIST(X)                                                     \
    X(VIT_OK, 0, "ok")                                                         \
    X(VIT_ERROR_ARGUMENT, -1, "invalid argument")                              \
    X(VIT_ERROR_IO, -2, "file cannot be opened or read")                       \
    X(VIT_ERROR_MEMORY, -3, "out of memory, or workspace too small")           \
    X(VIT_ERROR_ALIGNMENT, -4, "model data is not aligned to 16 bytes")        \
    X(VIT_ERROR_MAGIC, -5, "not a .vit file")                                  \
    X(VIT_ERROR_VERSION, -6, "file version is not supported")                  \
    X(VIT_ERROR_TRUNCATED, -7, "file is shorter than it claims")               \
    X(VIT_ERROR_CORRUPT, -8, "file contradicts itself")                        \
    X(VIT_ERROR_UNSUPPORTED, -9, "architecture or data type not supported")    \
    X(VIT_ERROR_SELFTEST, -10, "outputs differ from the file's self-test")     \
    X(VIT_ERROR_ABI, -11, "program and library come from different vit.h")

typedef enum vit_result {
#define VIT_X(name, value, text) name = value,
    VIT_RESULT_LIST(VIT_X)
#undef VIT_X
} vit_result;

/* A short English description. Never NULL; the string is static. */
VIT_API const char *vit_result_string(vit_result result);

/* --- model ---------------------------------------------------------------- */

/* Files store these values: never renumber them. >>extending has a recipe for each enum. */

typedef enum vit_crop_mode {
    VIT_CROP_CENTER = 0, /* shorter side to resize_*, then the centre            */
    VIT_CROP_SQUASH = 1, /* both sides to resize_*, ignoring the aspect ratio    */
    VIT_CROP_BORDER = 2, /* longer side to resize_*, the rest filled with mean   */
    VIT_CROP_ASPECT = 3, /* whole patches at the photo's aspect ratio: vit_run   */
    VIT_NUM_CROP_MODES
} vit_crop_mode;

/* The rounding of the top/left crop or padding offset. */
typedef enum vit_crop_rounding {
    VIT_ROUND_EVEN = 0, /* Pillow, torchvision, timm: crops half to even, padding down */
    VIT_ROUND_DOWN = 1, /* transformers: crops down, padding up                  */
    VIT_ROUND_NEAREST = 2, /* as 0; VIT_CROP_ASPECT: as DPTImageProcessor         */
    VIT_NUM_CROP_ROUNDINGS
} vit_crop_rounding;

typedef enum vit_interpolation {
    VIT_BILINEAR = 0, /* Pillow's BILINEAR, antialiased: support 1               */
    VIT_BICUBIC = 1,  /* Pillow's BICUBIC, antialiased: a = -0.5, support 2      */
    VIT_NUM_INTERPOLATIONS
} vit_interpolation;

#ifndef VIT_MAX_CHANS
#    define VIT_MAX_CHANS 32
#endif

/* The tokens to which pos_embed is added. */
typedef enum vit_positions {
    VIT_POS_ALL = 0,     /* all: [1, num_tokens, D]                              */
    VIT_POS_PATCHES = 1, /* the patches: [1, num_patches, D], timm no_embed_class */
    VIT_POS_NONE = 2,
    VIT_NUM_POSITIONS
} vit_positions;

/* The layers in front of the patch embedding. They make a feature map. */
typedef enum vit_stem {
    VIT_STEM_NONE = 0,   /* nothing: the map is the input                        */
    VIT_STEM_RESNET = 1, /* ResNetV2 of timm's hybrids: 7 x 7 convolution, max
                            pool, stages of bottlenecks with group norms */
    VIT_STEM_CONV = 2,   /* MobileCLIP-B: convolutions 4 x 4 and 2 x 2, GELU     */
    VIT_NUM_STEMS
} vit_stem;

/* How the named library resamples positions for another grid of patches. Shrinking without
   antialiasing skips some positions. */
typedef enum vit_pos_resample {
    VIT_RESAMPLE_TIMM = 0,         /* bicubic, antialiased: a = -0.5             */
    VIT_RESAMPLE_TRANSFORMERS = 1, /* bicubic: a = -0.75                         */
    VIT_RESAMPLE_TORCHVISION = 2,  /* as TORCH, but the corners' centres stay in place */
    VIT_RESAMPLE_FLEXIVIT = 3,     /* bilinear: timm's FlexiViT and .npz files   */
    VIT_RESAMPLE_JAX = 4,          /* bilinear; the corners' centres stay in place */
    VIT_RESAMPLE_DINO = 5,         /* as 1, for a grid 0.1 larger: DINO, DINOv2  */
    VIT_RESAMPLE_NAFLEX = 6,       /* bilinear, antialiased: SigLIP 2 NaFlex     */
    VIT_RESAMPLE_PAR = 7,          /* as 0, of a square of the longer side: naflexvit_*_par_* */
    VIT_RESAMPLE_PARFAC = 8,       /* as 3, likewise: naflexvit_*_parfac_*       */
    VIT_NUM_POS_RESAMPLES
} vit_pos_resample;

typedef enum vit_norm_type {
    VIT_LAYER_NORM = 0, /* (x - mean) / sqrt(var + eps) * weight + bias          */
    VIT_RMS_NORM = 1,   /* x / sqrt(mean of x^2 + eps) * weight                  */
    VIT_NUM_NORM_TYPES
} vit_norm_type;

typedef enum vit_block_type {
    VIT_BLOCK_PRE_NORM = 0,      /* x += attn(norm1(x)); x += mlp(norm2(x))      */
    VIT_BLOCK_POST_NORM = 1,     /* x = norm1(x + attn(x)); x = norm2(x + mlp(x)),
                                    torch.nn.TransformerEncoderLayer's default */
    VIT_BLOCK_RES_POST_NORM = 2, /* x += norm1(attn(x)); x += norm2(mlp(x)), ResPost */
    VIT_BLOCK_PARALLEL = 3,      /* x += attn(norm1(x)) + mlp(norm1(x)), ViT-22B */
    VIT_NUM_BLOCK_TYPES
} vit_block_type;

/* The pairs of elements of a head that rotary positions rotate, over the two axes of the grid
   (RoFormer, arXiv 2104.09864). Only queries and keys of patches are rotated. */
typedef enum vit_rope {
    VIT_ROPE_NONE = 0,
    VIT_ROPE_HALVES = 1, /* j with j + head_dim / 2: DINOv3                      */
    VIT_ROPE_PAIRS = 2,  /* 2 j with 2 j + 1: EVA-02                             */
    VIT_NUM_ROPES
} vit_rope;

/* How the input is cut into patches. The patch embedding reads each as [C, P, P]. All cuts but
   squares need an input of whole patches. N is num_patches. */
typedef enum vit_patch_cut {
    VIT_CUT_SQUARES = 0,     /* P x P pixels, as a convolution reads; see patch_stride */
    VIT_CUT_INTERLEAVED = 1, /* every grid_height-th row, every grid_width-th column:
                                einops "(p1 h) (p2 w)" */
    VIT_CUT_RESHAPE = 2,     /* N runs of the input's values: x.reshape(N, C P P)    */
    VIT_CUT_UNFOLD = 3,      /* all C x P x P values are cut channel by channel:
                                x.unfold().unfold() without a permute */
    VIT_NUM_CUTS
} vit_patch_cut;

/* The tokens to which a token attends. */
typedef enum vit_attention {
    VIT_ATTENTION_ALL = 0,
    VIT_ATTENTION_SELF = 1, /* itself alone, in encoders that attend over the batch.
                               Softmax gives 1, so the context is v; v and attn.proj
                               are one layer, stored as attn.proj */
    VIT_ATTENTION_CAUSAL = 2, /* itself and the tokens before it: text encoders  */
    VIT_NUM_ATTENTIONS
} vit_attention;

/* The function between the layers of an MLP: X(enumerator, value, name). */
#define VIT_ACTIVATION_LIST(X)                                                 \
    X(VIT_GELU, 0, "gelu")             /* x * Phi(x), by erf                */ \
    X(VIT_GELU_TANH, 1, "gelu_tanh")   /* torch.nn.GELU(approximate="tanh") */ \
    X(VIT_QUICK_GELU, 2, "quick_gelu") /* x * sigmoid(1.702 x)              */ \
    X(VIT_SILU, 3, "silu")             /* x * sigmoid(x)                    */ \
    X(VIT_RELU, 4, "relu")

typedef enum vit_activation {
#define VIT_X(name, value, text) name = value,
    VIT_ACTIVATION_LIST(VIT_X)
#undef VIT_X
    VIT_NUM_ACTIVATIONS
} vit_activation;

/* The function after the linear layer of pre_logits. Values from VIT_REPRESENTATION_GELU on follow
   the order of the activations above. */
typedef enum vit_representation {
    VIT_REPRESENTATION_TANH = 0,
    VIT_REPRESENTATION_NONE = 1,
    VIT_REPRESENTATION_GELU = 2,
    VIT_REPRESENTATION_GELU_TANH = 3,
    VIT_REPRESENTATION_QUICK_GELU = 4,
    VIT_REPRESENTATION_SILU = 5,
    VIT_REPRESENTATION_RELU = 6,
    VIT_NUM_REPRESENTATIONS
} vit_representation;

/* How tokens become the one vector that the head reads. */
typedef enum vit_pool {
    VIT_POOL_TOKEN = 0,     /* token 0 (and the distillation token)              */
    VIT_POOL_AVG = 1,       /* mean of the patches                               */
    VIT_POOL_MAX = 2,       /* maximum of the patches                            */
    VIT_POOL_AVGMAX = 3,    /* the mean of AVG's and MAX's results               */
    VIT_POOL_MAP = 4,       /* multi-head attention pooling: timm's attn_pool    */
    VIT_POOL_TOKEN_AVG = 5, /* [token 0, mean of the patches], 2 D wide: DINOv2  */
    VIT_POOL_LAST = 6,      /* the last token: SigLIP's text encoder             */
    VIT_POOL_ARGMAX = 7,    /* the first token with the largest id: CLIP's end of text */
    VIT_NUM_POOLS
} vit_pool;

/* The function from logits to scores. */
typedef enum vit_head_activation {
    VIT_HEAD_SOFTMAX = 0, /* one right class: probabilities that sum to 1        */
    VIT_HEAD_SIGMOID = 1, /* any number of right classes: independent probabilities */
    VIT_NUM_HEAD_ACTIVATIONS
} vit_head_activation;

/* The hyperparameters, named as in the papers and timm. The file stores all but the last group,
   which the open functions derive. */
typedef struct vit_config {
    int in_chans;           /* C: channels of the input, 3 for RGB               */
    int img_height;         /* input is [in_chans, img_height, img_width]        */
    int img_width;
    int patch_size;         /* P: one token per P x P patch; pixels left over at
                               the right and bottom are ignored, except by a stem */
    int patch_stride;       /* pixels from one patch to the next; 0: P, side by
                               side; below P: patches overlap */
    int embed_dim;          /* D: width of a token                               */
    int depth;              /* L: number of transformer blocks                   */
    int num_heads;          /* H: attention heads                                */
    int head_dim;           /* width of one head, usually D / H                  */
    int mlp_dim;            /* width of the hidden MLP layer, D * mlp_ratio; 0:
                               blocks of attention alone, without norm2 */
    int num_classes;        /* width of the head; 0 for a headless backbone      */
    int representation_dim; /* pre_logits: width of its linear layer; 0 for none */
    int representation_act; /* vit_representation: what follows that layer       */
    int has_cls_token;      /* 1: token 0 is the class token                     */
    int has_dist_token;     /* 1: token 1 is DeiT's distillation token, which
                               has a second head; logits are the mean of both */
    int num_reg_tokens;     /* register tokens, after those two                  */
    int positions;          /* vit_positions                                     */
    int has_patch_bias;     /* 1: the patch embedding has a bias                 */
    int has_patch_norm;     /* 1: norm after the patch embedding                 */
    int has_pre_norm;       /* 1: norm before the first block, norm_pre          */
    int norm_type;          /* vit_norm_type, of every norm                      */
    int block_type;         /* vit_block_type                                    */
    int attention;          /* vit_attention                                     */
    int has_qkv_bias;       /* 1: the qkv projection has a bias                  */
    int has_qk_norm;        /* 1: q and k of each head are normalised            */
    int rope;               /* vit_rope, rotary positions                        */
    int rope_per_block;     /* 1: each block and head has its own angles         */
    int has_rel_pos;        /* 1: a bias on q k^T by relative position, as BEiT  */
    int has_diff_attn;      /* 1: differential attention: half a head's map minus
                               lambda times the other half's, arXiv 2410.05258 */
    int has_attn_norm;      /* 1: norm before attn.proj                          */
    int has_proj_bias;      /* 1: attn.proj, mlp.fc1 and mlp.fc2 have a bias     */
    int has_layer_scale;    /* 1: each branch is multiplied by ls1, ls2          */
    int activation;         /* vit_activation, of every MLP                      */
    int has_gated_mlp;      /* 1: fc1 is [2 M, D], fc2 reads act(first M) * rest */
    int has_mlp_norm;       /* 1: norm before mlp.fc2                            */
    int has_final_norm;     /* 1: norm of all tokens after the last block        */
    int pool;               /* vit_pool                                          */
    int pool_prefix;        /* 1: the prefix tokens are pooled as well           */
    int pool_num_heads;     /* heads of VIT_POOL_MAP; 0 for num_heads            */
    int pool_mlp_dim;       /* width of its hidden layer; 0 for mlp_dim          */
    int has_fc_norm;        /* 1: norm after pooling                             */
    int head_activation;    /* vit_head_activation, which vit_scores applies     */
    float norm_eps;         /* used by every norm: 1e-6 in timm, 1e-5 in CLIP    */
    float attn_scale;       /* factor on q k^T, usually 1 / sqrt(head_dim)       */
    int has_patch_pre_norm; /* 1: norm of a patch's values before its embedding  */
    int patch_cut;          /* vit_patch_cut                                     */
    int stem;               /* vit_stem                                          */
    int stem_width;         /* channels of its first convolution                 */
    int stem_stage1;        /* VIT_STEM_RESNET: blocks of each stage, 0 for none */
    int stem_stage2;
    int stem_stage3;
    int stem_stage4;
    int vocab_size;         /* V: a text encoder, whose input is img_width ids of
                               tokens, from 0 to V - 1; 0 for images. Needs a
                               build with VIT_TEXT_ENCODER */
    float logit_scale;      /* of a text encoder: the logit of a photo and a text */
    float logit_bias;       /*    is logit_scale * cosine + logit_bias; over several
                               texts, head_activation makes probabilities of them */

    int resize_height;      /* preprocessing: the photo's size before the crop;  */
    int resize_width;       /*    VIT_CROP_ASPECT: as many patches, or fewer     */
    int crop_mode;          /* vit_crop_mode                                     */
    int crop_rounding;      /* vit_crop_rounding                                 */
    int interpolation;      /* vit_interpolation                                 */

    int dynamic_img_size;   /* 1: vit_model_resize may change the input size     */
    int dynamic_img_pad;    /* 1: the right and bottom are padded with zeros to
                               whole patches */
    int pos_resample;       /* vit_pos_resample, for vit_model_resize            */
    float crop_pct;         /* for vit_model_resize: resize_* = img_* / crop_pct;
                               0: resize_* change in proportion to img_* */

    int selftest_seed;         /* seed of vit_selftest's input                   */
    float selftest_tolerance;  /* largest accepted |difference| / max|expected|  */

    int merge_size;         /* m: a merger makes one token for a language model of
                               m x m patches: vit_outputs.merged; 0: no merger   */
    int merge_dim;          /* width of a merged token                           */
    int merge_mlp_dim;      /* width of the merger's hidden layer                */
    int merge_norm;         /* its norm: 0 none, 1 of each patch, 2 of m x m patches in a row */
    int merge_act;          /* vit_activation of its MLP                         */
    VIT_RESERVED(int, 24)   /* for future options                                */

    float mean[VIT_MAX_CHANS]; /* preprocessing of pixels x in [0, 1]:           */
    float std[VIT_MAX_CHANS];  /*    (x - mean) / std                            */

    int grid_height;        /* derived: img_height / patch_size; a ResNet stem
                               and dynamic_img_pad round sizes up; or, with
                               patch_stride, (img_height - P) / patch_stride + 1 */
    int grid_width;
    int num_patches;        /* grid_height * grid_width                          */
    int num_prefix_tokens;  /* before the patches: cls, dist, register tokens    */
    int num_tokens;         /* N: num_prefix_tokens + num_patches                */
} vit_config;

#if defined(VIT_NO_TEXT)
#    define VIT_MAX_DETAIL 1
#else
#    define VIT_MAX_DETAIL 224
#endif

/* A loaded model. It points into the file's bytes; nothing is copied. The struct may be copied at
   any time, and moved while no session uses it; close it once. */
typedef struct vit_model {
    unsigned abi;                /* private; these two come first in every version */
    char detail[VIT_MAX_DETAIL]; /* after a failed open: "FILE: what was wrong"  */
    vit_config config;           /* read-only                                    */

    /* Private. Do not rely on anything below; it changes without notice. */
    const unsigned char *data;   /* the whole file                               */
    size_t size;
    const unsigned char *tensors; /* the tensor directory                        */
    const unsigned char *fields; /* the records of config                        */
    const unsigned char *labels, *synsets, *source; /* sections, NULL if absent  */
    const unsigned char *fits16; /* one flag per tensor, or NULL                 */
    uint32_t num_tensors, num_fields, num_labels, num_synsets;
    int ownership;               /* how vit_model_close releases `data`          */
    int file_height, file_width; /* img_* and resize_* before vit_model_resize   */
    int file_resize_height, file_resize_width;
    VIT_RESERVED(const void *, 8)
} vit_model;

/* Flags of the open functions, or-ed together; 0 is the usual choice. */
#define VIT_OPEN_VERIFY 1u /* also verify every tensor's checksum: reads all     */
#define VIT_OPEN_COPY 2u   /* read the file into memory instead of mapping it    */

/* The vit.h that a program was compiled with. The upper 24 bits are the size of its vit_model in
   units of 4 bytes. Callers without this header pass vit_abi(). */
#if defined(VIT_BARE_METAL)
enum { VIT_ABI_OF_PROGRAM = 0 };
#else
enum { VIT_ABI_OF_PROGRAM = sizeof(vit_model) / 4 << 8 | VIT_ABI };
#endif
#ifndef VIT_NO_STDIO
VIT_API vit_result vit_model_open_as(unsigned abi, const char *path, unsigned flags,
                                     vit_model *model);
#endif
VIT_API vit_result vit_model_open_memory_as(unsigned abi, const void *data, size_t size,
                                            unsigned flags, vit_model *model);

#ifndef VIT_NO_STDIO
/* Opens a .vit file: maps it (reads it, with VIT_NO_MMAP or VIT_OPEN_COPY) and validates its
   structure. On Windows the path is UTF-8, of up to 2,000 characters. On failure, model->detail
   names the file and the reason, and nothing stays open. Close with vit_model_close. */
VIT_INLINE vit_result vit_model_open(const char *path, unsigned flags, vit_model *model) {
    return vit_model_open_as(VIT_ABI_OF_PROGRAM, path, flags, model);
}
#endif

/* Uses a .vit file already in memory, e.g. a const array in flash. Nothing is copied or allocated;
   data must outlive the model and be aligned to 16 bytes (VIT_ALIGN is fastest). VIT_OPEN_VERIFY is
   the only flag used here. Errors are those of vit_model_open. */
VIT_INLINE vit_result vit_model_open_memory(const void *data, size_t size, unsigned flags,
                                            vit_model *model) {
    return vit_model_open_memory_as(VIT_ABI_OF_PROGRAM, data, size, flags, model);
}

/* Releases the memory of vit_model_open and zeroes the struct. The model may be NULL or one that
   could not be opened. */
VIT_API void vit_model_close(vit_model *model);

#ifdef VIT_TEXT_ENCODER
/* Opens the text encoder in the file of `model`; if `model` is a text encoder itself, copies it.
   `text` uses the bytes of `model`, which must stay open; closing `text` is optional. Flags are
   those of vit_model_open_memory. Errors, with the reason in the detail of `text`, are its own,
   VIT_ERROR_UNSUPPORTED if the file has no text encoder, and VIT_ERROR_CORRUPT if the two
   vit_embedding_dim differ. */
VIT_API vit_result vit_model_text(const vit_model *model, unsigned flags, vit_model *text);
#endif

#ifndef VIT_NO_DOUBLE
/* Changes the input size, in pixels, of a model marked dynamic_img_size: img_*, resize_*, grid_*
   and num_* in model->config. Sessions created afterwards resample all positions, rotary and
   relative ones too, into their workspace; earlier sessions become invalid. A copy of the struct
   has its own size, so one file may serve several. On failure, detail has the reason and nothing
   changes: VIT_ERROR_UNSUPPORTED for models not so marked, VIT_ERROR_ARGUMENT for sizes beyond
   LIMITS. */
VIT_API vit_result vit_model_resize(vit_model *model, int height, int width);
#endif

/* Every function below refuses a model that is NULL or not open: it returns VIT_ERROR_ARGUMENT,
   NULL or 0; vit_scores leaves x alone. */

/* Name of class `index` ("tabby, tabby cat"), or NULL if the file has none. It is valid until the
   model is closed. */
VIT_API const char *vit_label(const vit_model *model, int index);

/* Floats in the input of one image, in_chans * img_height * img_width. */
VIT_API size_t vit_input_size(const vit_model *model);

/* Width of an embedding: representation_dim if not 0, 2 * embed_dim with VIT_POOL_TOKEN_AVG, else
   embed_dim. */
VIT_API int vit_embedding_dim(const vit_model *model);

/* --- images --------------------------------------------------------------- */

/* Layout of pixels in memory, byte by byte. Y, U, V (U and V stand for Cb and Cr) are those of
   ITU-R BT.601 in limited range (Y from 16 to 235). vit__yuv_to_rgb converts them; pixels that
   share U and V all use the same values. */
typedef enum vit_pixel {
    VIT_PIXEL_RGB8 = 0,
    VIT_PIXEL_RGBA8 = 1,   /* alpha is ignored                                   */
    VIT_PIXEL_GRAY8 = 2,
    VIT_PIXEL_BGR8 = 3,    /* OpenCV's                                           */
    VIT_PIXEL_BGRA8 = 4,   /* alpha is ignored                                   */
    VIT_PIXEL_RGB565 = 5,  /* 16 bits, low byte first: red in the upper 5, blue in the
                              lower 5; widened by repeating the upper bits */
    VIT_PIXEL_YUYV = 6,    /* each two pixels of a row: Y U Y V                  */
    VIT_PIXEL_NV12 = 7,    /* a plane of Y, then one of U V U V ... with half as
                              many rows, each for 2 x 2 pixels */
    VIT_PIXEL_F32 = 8,     /* planes of red, green, blue: floats from 0 to 1, which
                              are rounded to 255ths; NaN is 0 */
    VIT_NUM_PIXELS
} vit_pixel;

/* Pixels of the caller, never written to. A row of YUYV or NV12 has an even number of pixels; an
   odd width is followed by one hidden pixel. The next plane follows height * stride bytes later,
   with the same stride. */
typedef struct vit_image {
    const uint8_t *pixels; /* top-left pixel; rows from top to bottom            */
    int width, height;     /* in pixels                                          */
    int stride;            /* bytes between rows; 0 = tightly packed             */
    vit_pixel format;
} vit_image;

/* --- easy: a photo in, an answer out ------------------------------------------ */

typedef struct vit_prediction {
    int index;   /* the class                                                    */
    float score; /* as given to vit_top_k; a probability from vit_classify       */
} vit_prediction;

#if !defined(VIT_NO_MALLOC) && !defined(VIT_NO_PREPROCESS)
/* The k best classes of a photo. Preprocesses, runs and scores it on the calling thread. top
   receives k predictions; beyond num_classes their index is -1. Each call allocates and frees its
   memory; a session keeps its memory for many photos. VIT_ERROR_ARGUMENT for k < 0, a model without
   a head or an image of no size, VIT_ERROR_UNSUPPORTED for models with neither 1 nor 3 channels,
   VIT_ERROR_MEMORY. */
VIT_API vit_result vit_classify(const vit_model *model, const vit_image *image, int k,
                                vit_prediction *top);

/* The embedding of a photo, [vit_embedding_dim]. Its length varies; vit_normalize makes it 1.
   Errors are those of vit_classify, except that the model needs no head. */
VIT_API vit_result vit_embed(const vit_model *model, const vit_image *image, float *embedding);
#endif

/* --- sessions ------------------------------------------------------------- */

/* Tiers of kernels, the slowest of a family first: X(enumerator, value, name). A tier does not
   imply the lower-numbered ones. */
#define VIT_ISA_LIST(X)                                                        \
    X(VIT_ISA_AUTO, 0, "auto")               /* the best of this CPU and build */ \
    X(VIT_ISA_SCALAR, 1, "scalar")           /* plain C                        */ \
    X(VIT_ISA_SSE2, 2, "sse2")               /* every x86 with SSE2; no FMA    */ \
    X(VIT_ISA_AVX2, 3, "avx2")               /* AVX2 FMA F16C: Haswell, Zen    */ \
    X(VIT_ISA_AVX_VNNI, 4, "avx-vnni")       /* Alder Lake, Zen 5              */ \
    X(VIT_ISA_AVX512, 5, "avx512")           /* F BW DQ VL: Skylake-SP         */ \
    X(VIT_ISA_AVX512_VNNI, 6, "avx512-vnni") /* Cascade Lake                   */ \
    X(VIT_ISA_AVX512_BF16, 7, "avx512-bf16") /* Cooper Lake, Zen 4             */ \
    X(VIT_ISA_NEON, 8, "neon")               /* every 64-bit ARM               */ \
    X(VIT_ISA_NEON_DOTPROD, 9, "neon-dotprod") /* Cortex-A76, M1               */ \
    X(VIT_ISA_NEON_I8MM, 10, "neon-i8mm")    /* int8 matrix products           */ \
    X(VIT_ISA_NEON_BF16, 11, "neon-bf16")    /* Neoverse V1, M2                */ \
    X(VIT_ISA_WASM_SIMD, 12, "wasm-simd")    /* WebAssembly's SIMD128          */ \
    X(VIT_ISA_SMLAD, 13, "smlad")            /* Cortex-M4, M7, M33             */ \
    X(VIT_ISA_HELIUM, 14, "helium")          /* Cortex-M55                     */

typedef enum vit_isa {
#define VIT_X(name, value, text) name = value,
    VIT_ISA_LIST(VIT_X)
#undef VIT_X
    VIT_NUM_ISAS
} vit_isa;

/* Bring your own threads: call task(arg, i) once for every i in [0, count), in any order and on any
   threads, and return after the last call has returned. */
typedef void vit_task(void *arg, int index);

typedef struct vit_executor {
    void (*parallel_for)(void *user, int count, vit_task *task, void *arg);
    void *user;
    int num_threads; /* most calls at once                                       */
} vit_executor;

/* Receives every intermediate tensor, named as in timm ("blocks.3.attn.qkv"), so that a port or a
   test can compare step by step. Names, in order:
      patch_embed.backbone...  [1, height, width, channels] of a stem, image by image:
                               VIT_STEM_CONV: .0 and .1. VIT_STEM_RESNET: .stem.norm and .stem;
                               then, after each stages.i.blocks.j, .norm1, .norm2, .downsample
                               (block 0 only) and "", the block's output
      patch_embed.pre_norm     [batch, num_patches, C * P * P]   if has_patch_pre_norm
      patch_embed              [batch, num_patches, D]   after patch_embed.norm, if any
      pos_embed                [batch, N, D]             with all tokens and positions
      norm_pre                 [batch, N, D]             if has_pre_norm
      blocks.i.norm1           [batch, N, D]             unless the norms come last
      blocks.i.attn.qkv        [batch, N, 3 * H * head_dim]
      blocks.i.attn.qk_norm    as attn.qkv, with q and k normalised, if has_qk_norm
      blocks.i.attn.rope       as attn.qkv, with q and k rotated, if there is rope
      blocks.i.attn.context    [batch, N, H * head_dim]; VIT_ATTENTION_SELF has no row from attn.qkv
                               to here
      blocks.i.attn.norm       the context normalised, if has_attn_norm; .sub_norm, head by head, if
                               has_diff_attn
      blocks.i.attn.proj       [batch, N, D]             before LayerScale
      blocks.i.attn            [batch, N, D] after attention's half of the block
      blocks.i.norm2, .mlp.fc1, .mlp.act, .mlp.norm, .mlp.fc2      as for attention; parallel blocks
                               have no norm2, mlp_dim 0 has none of these
      blocks.i                 [batch, N, D]             output of the block
      norm                     [batch, N, D]             also without has_final_norm
      merger.norm, .fc1, .act  of vit_outputs.merged, if it is not NULL; then merger, its values
      pool                     [batch, D]                2 D for VIT_POOL_TOKEN_AVG
      fc_norm                  [batch, D]                if has_fc_norm
      pre_logits               [batch, representation_dim]
      head, head_dist          [batch, num_classes]
   Unused elements of shape are zero. data is valid during the call only. Tracing costs some speed
   and does not change the outputs. */
typedef void vit_trace(void *user, const char *name, const float *data, const int shape[4]);

/* The steps of a forward pass, for timing: X(enumerator, value, name). */
#define VIT_PHASE_LIST(X)                                                      \
    X(VIT_PHASE_END, 0, "end")                 /* the pass has ended           */ \
    X(VIT_PHASE_PATCH_EMBED, 1, "patch_embed") /* stem, im2col, GEMM, positions */ \
    X(VIT_PHASE_NORM, 2, "norm")               /* LayerNorm, input conversion  */ \
    X(VIT_PHASE_QKV, 3, "qkv")                                                 \
    X(VIT_PHASE_ATTENTION, 4, "attention")     /* scores, softmax, values      */ \
    X(VIT_PHASE_PROJ, 5, "proj")                                               \
    X(VIT_PHASE_FC1, 6, "fc1")                 /* including the activation     */ \
    X(VIT_PHASE_FC2, 7, "fc2")                                                 \
    X(VIT_PHASE_HEAD, 8, "head")               /* final norm, pooling, head    */

typedef enum vit_phase {
#define VIT_X(name, value, text) name = value,
    VIT_PHASE_LIST(VIT_X)
#undef VIT_X
    VIT_NUM_PHASES
} vit_phase;

/* vit_forward calls it on its own thread when a phase begins, which ends the previous one;
   VIT_PHASE_END comes last. Read a clock here, or cancel the pass by longjmp: nothing leaks. */
typedef void vit_on_phase(void *user, vit_phase phase);

/* Zero-initialise, then set what you need: zero always means the default. */
typedef struct vit_params {
    vit_isa isa;           /* default VIT_ISA_AUTO; force a tier in tests        */
    vit_executor executor; /* default: the calling thread does everything        */
    int low_memory;        /* 1: one image, one attention head and a few rows of
                              the MLP at a time: less workspace, the same bits,
                              but slower, above all with int8. Ignored with a trace
                              and by parallel blocks */
    int batch;             /* images computed together, as a trace shows them; default:
                              1, with threads as many as their caches hold */
    vit_trace *trace;      /* default: none                                      */
    void *trace_user;
    vit_on_phase *on_phase; /* default: none                                     */
    void *phase_user;
    VIT_RESERVED(void *, 8)
} vit_params;

/* Everything a forward pass writes to. One session serves one thread at a time. It may be moved
   between calls, but not copied. */
typedef struct vit_session {
    const vit_model *model; /* read-only                                         */
    vit_isa isa;            /* read-only: the tier in use                        */

    /* Private. */
    vit_params params;
    const void *kernels;
    float *x;             /* residual stream         [batch * N, D]              */
    float *y;             /* normed tokens, then context [batch * N, max(D, H * head_dim)] */
    size_t y_size;        /* floats of y: fewer with low_memory                  */
    float *scratch;       /* shared by the phases: patches, qkv, mlp hidden      */
    float *attn;          /* per thread: packed K and V of a head, some scores   */
    size_t attn_stride;   /* floats of `attn` for each thread                    */
    float *positions;     /* room for resampled positions, or NULL               */
    const float *pos;     /* pos_embed of the file or resampled; NULL for none   */
    int img_height, img_width; /* the input size of all buffers                  */
    int chunk;            /* rows computed together: all, or a few with low_memory */
    float *rope, *rel_pos; /* tables for a grid other than the file's, or NULL   */
#if !defined(VIT_BARE_METAL)
    void *memory;         /* memory that vit_session_init allocated, or NULL     */
    float *room;          /* vit_run's inputs and answers, or NULL               */
    size_t room_floats;
#endif
    VIT_RESERVED(void *, 16)
} vit_session;

/* Makes a session. params may be NULL for defaults. If workspace is NULL and size 0, the session
   allocates its memory and vit_session_close frees it. Otherwise workspace has `size` bytes at any
   alignment; they belong to the caller and must outlive the session. While a session uses it, the
   model must stay at its address and keep its input size. VIT_ERROR_ARGUMENT for invalid params or
   a tier that is not available, VIT_ERROR_MEMORY if size is too small. */
VIT_API vit_result vit_session_init(vit_session *session, const vit_model *model,
                                    const vit_params *params, void *workspace, size_t size);

/* The exact number of bytes that vit_session_init needs as workspace; 0 if it would fail. */
VIT_API size_t vit_workspace_size(const vit_model *model, const vit_params *params);

#if !defined(VIT_NO_MALLOC)
/* Frees the session's memory and zeroes the struct. The session may be NULL, or one that
   vit_session_init refused if it was zero before. */
VIT_API void vit_session_close(vit_session *session);
#endif

#if !defined(VIT_NO_MALLOC) && !defined(VIT_NO_PREPROCESS)
/* The answers for each photo. The session owns the arrays until its next vit_run or its close. */
typedef struct vit_answer {
    const float *scores;    /* [count, num_classes], probabilities; NULL without a head */
    const float *embedding; /* [count, vit_embedding_dim]                        */
} vit_answer;

/* Preprocesses, runs and scores `count` photos of any sizes on the threads of the executor. Errors
   are those of vit_classify. */
VIT_API vit_result vit_run(vit_session *session, const vit_image *photos, int count,
                           vit_answer *answer);
#endif

/* --- expert: every step by itself ------------------------------------------------------------ */

#ifndef VIT_NO_PREPROCESS
/* Bytes of scratch that vit_preprocess needs for this image; 0 if it would fail. */
VIT_API size_t vit_preprocess_size(const vit_model *model, const vit_image *image);

/* Resizes, crops and normalises as in the model's training, with the same bits as Pillow and timm
   (or transformers). input receives [in_chans, img_height, img_width]. A grey image fills three
   equal channels; models with one channel get Pillow's luma ("L"). If scratch is NULL, the function
   allocates its own. VIT_ERROR_ARGUMENT for empty images and sides above 1048576 pixels,
   VIT_ERROR_UNSUPPORTED for models with neither 1 nor 3 channels and those of VIT_CROP_ASPECT that
   vit_model_fit has not fitted, VIT_ERROR_MEMORY if scratch is too small. */
VIT_API vit_result vit_preprocess(const vit_model *model, const vit_image *image, float *input,
                                  void *scratch, size_t scratch_size);
#endif

/* Images for a forward pass. Zero-initialise, then set what you need. */
typedef struct vit_input {
    const float *pixels; /* [batch, in_chans, img_height, img_width], from vit_preprocess;
                            text encoders take ids as floats here too */
    int batch;           /* any number of images; 0 means 1                      */
    const uint8_t *mask; /* [batch, num_tokens] or NULL: 0 for tokens that must not be attended
                            to, e.g. padding. Their scores become the lowest float before
                            the softmax, in every block and in map pooling; they remain
                            queries and count in means over tokens. VIT_ATTENTION_SELF has
                            nothing to mask */
#if !defined(VIT_BARE_METAL) && !defined(VIT_FIXED)
    const int *ids;      /* [batch, img_width]: a text encoder's tokens, instead of pixels */
#endif
    VIT_RESERVED(void *, 5)
} vit_input;

/* The results of one block. Tokens are ordered: prefix tokens, then patches, row by row. */
typedef struct vit_block_output {
    float *tokens;    /* [batch, num_tokens, embed_dim]                          */
    float *attention; /* [batch, num_heads, num_tokens, num_tokens], softmax     */
    int index;        /* block, from 0 as in timm; -1 is the last, -2 the one before */
    int norm;         /* 1: tokens after the final norm, as DINOv2's
                         get_intermediate_layers; 0: as the block leaves them */
} vit_block_output;

/* The destinations of the outputs. Zero-initialise, then set what you need. A NULL output is not
   computed, and blocks that no output needs do not run. */
typedef struct vit_outputs {
    float *logits;    /* [batch, num_classes]                                    */
    float *embedding; /* [batch, vit_embedding_dim], the head's input            */
    float *tokens;    /* [batch, num_tokens, embed_dim], after the final norm    */
    const vit_block_output *blocks; /* [num_blocks], in any order; a block may be */
    int num_blocks;                 /*    listed more than once                   */
    float *merged;    /* [batch, num_patches / merge_size^2, merge_dim]: the merger's tokens, row
                         by row */
    VIT_RESERVED(void *, 5)
} vit_outputs;

/* Runs the network. VIT_ERROR_ARGUMENT for NULL pointers, batch < 0, a block out of range, logits
   of a model without a head, merged tokens without a merger, outputs beyond the address space, or a
   model resized since vit_session_init. */
VIT_API vit_result vit_forward(vit_session *session, const vit_input *input,
                               const vit_outputs *outputs);

#ifndef VIT_NO_DOUBLE
/* Divides x[n] by its Euclidean length, in place. The arithmetic is in double, so that each element
   is correct to within its last bit. Zeros stay zeros, as in torch.nn.functional.normalize. One NaN
   or infinity makes every element NaN. n < 1 does nothing. */
VIT_API void vit_normalize(float *x, int n);

/* Cosine of the angle between a[n] and b[n], computed in double: from -1 to 1; 0 if a or b is all
   zeros; NaN if either has a NaN or infinity. */
VIT_API float vit_cosine(const float *a, const float *b, int n);
#endif

/* Turns the logits of one image, [num_classes], into probabilities, in place: softmax or sigmoid,
   according to head_activation. */
VIT_API void vit_scores(const vit_model *model, float *x);

/* The k best of n scores, best first; ties go to the lower index, NaN comes last.
   Returns the number written to top: min(k, n), at least 0. */
VIT_API int vit_top_k(const float *scores, int n, int k, vit_prediction *top);

/* Tests this build on this CPU: runs the model on a pseudorandom input and compares the result with
   the outputs that vit-convert stored. It overwrites input [in_chans, img_height, img_width] and
   output [num_classes, or vit_embedding_dim without a head]. error, if not NULL, receives
   max|difference| / max|expected|, NaN if outputs are not finite. VIT_ERROR_SELFTEST if the error
   exceeds selftest_tolerance; VIT_ERROR_UNSUPPORTED if the file has no such outputs or
   vit_model_resize has changed the size. */
VIT_API vit_result vit_selftest(vit_session *session, float *input, float *output, float *error);

/* --- built-in thread pool ------------------------------------------------- */

#if !defined(VIT_NO_THREADS) && !defined(VIT_NO_MALLOC)
typedef struct vit_threads vit_threads;

/* num_threads includes the calling thread. 0 means one thread per core; on Linux, only the cores
   that the process's affinity and the CPU quotas of its control groups (versions 1 and 2) allow.
   Fills in executor, ready for vit_params. Sessions that share a pool take turns, phase by phase. A
   task that uses its own pool runs the inner work on its own thread. Release with
   vit_threads_destroy once no session uses it. VIT_ERROR_ARGUMENT for fewer than 0 or more than
   VIT_MAX_THREADS threads, VIT_ERROR_MEMORY if the threads cannot be started. */
VIT_API vit_result vit_threads_create(int num_threads, vit_threads **threads,
                                      vit_executor *executor);

/* Stops and joins the threads and frees the pool. NULL is allowed. */
VIT_API void vit_threads_destroy(vit_threads *threads);
#endif

/* --- texts ------------------------------------------------------------------ */

#if defined(VIT_TEXT_ENCODER)
/* A tokenizer turns a text into the ids of a text tower's inputs. It is a section of the .vit file,
   made by vit-convert and used in place. Any number of threads may share one. */
typedef struct vit_tokenizer {
    int context;                /* most ids of a text, with begin and end; 2 to 65536             */
    int num_ids;                /* every id is in 0 to num_ids - 1 */
    int begin, end;             /* ids at both ends of every text; -1: none */
    int pad;                    /* fills the ids up to the context; -1: zeros do      */
    const unsigned char *bytes; /* private */
    size_t size;                /* private */
    VIT_RESERVED(int, 5)
} vit_tokenizer;

/* The ids of one text. */
typedef struct vit_text_ids {
    int *ids;          /* yours: [context], from begin to end, then pad */
    int num_ids;       /* from begin to end                             */
    size_t num_cut;    /* ids beyond the context, which were left out   */
    size_t invalid_at; /* offset of the first byte that is not UTF-8; the text's size if all are */
    VIT_RESERVED(size_t, 2)
} vit_text_ids;

/* data must outlive the tokenizer. Checks the header and the place of every table; later calls
   check each entry that they read, so no data can make them read or write out of bounds.
   VIT_ERROR_MAGIC, _VERSION, _TRUNCATED, _CORRUPT. */
VIT_API vit_result vit_tokenizer_open(const void *data, size_t size, vit_tokenizer *tokenizer);

/* Bytes of scratch for any text of `size` bytes: some 95 per byte for CLIP, 350 for SigLIP; 0 if
   they exceed the address space, or if `size` exceeds 2^28. */
VIT_API size_t vit_tokenize_size(const vit_tokenizer *tokenizer, size_t size);

/* Cleans, splits and tokenizes `size` bytes of UTF-8 as the model's own tokenizer does. Set
   out->ids; the call fills it and the other fields. A text that is too long keeps its first ids and
   the end. Takes O(n log n) time and allocates nothing. VIT_ERROR_ARGUMENT for a text that is not
   UTF-8 (out->invalid_at), VIT_ERROR_MEMORY if scratch has fewer than vit_tokenize_size bytes,
   VIT_ERROR_CORRUPT if a table has an id or a growth that the header excludes. */
VIT_API vit_result vit_tokenize(const vit_tokenizer *tokenizer, const char *text, size_t size,
                                void *scratch, size_t scratch_size, vit_text_ids *out);

/* The texts that vit-convert stored with their ids: text number `index`, which has *size bytes, is
   not NUL-terminated and stays in the tokenizer's data. Its ids go to out as by vit_tokenize, but
   without pad. NULL beyond the last one. */
VIT_API const char *vit_tokenizer_example(const vit_tokenizer *tokenizer, int index, size_t *size,
                                          vit_text_ids *out);

/* The tokenizer of a text encoder: `text` is from vit_model_text and must stay open.
   VIT_ERROR_UNSUPPORTED if the file has none, VIT_ERROR_CORRUPT if it does not fit the encoder. */
VIT_API vit_result vit_model_tokenizer(const vit_model *text, vit_tokenizer *tokenizer);

/* Turns x[n], the vit_cosine of an image and of n texts, into probabilities, in place: softmax (one
   text fits) or sigmoid (each alone) of logit_scale * x + logit_bias, as `text`, from
   vit_model_text, was trained. n < 1 does nothing. */
VIT_API void vit_text_scores(const vit_model *text, float *x, int n);

#if !defined(VIT_NO_MALLOC)
/* The embedding of a NUL-terminated text, [vit_embedding_dim], by the text encoder of `model`,
   which may be a file of both encoders. vit_cosine compares it with vit_embed's. Each call
   allocates and frees its memory; vit_tokenize, then vit_forward with vit_input.ids, compute the
   same. A text that is too long is cut. Errors are those of vit_model_text, vit_model_tokenizer and
   vit_tokenize. */
VIT_API vit_result vit_text_embed(const vit_model *model, const char *text, float *embedding);
#endif
#endif

#ifdef __cplusplus
}
#endif
#endif /* VIT_H */

#if defined(STBI_INCLUDE_STB_IMAGE_H) && !defined(STBI_NO_STDIO) && !defined(VIT_HAS_IMAGE_LOAD)
#define VIT_HAS_IMAGE_LOAD
/* Available if stb_image.h is included first: loads a JPEG, PNG, BMP, GIF, TGA, PSD or PNM as
   stored. stb_image ignores the EXIF orientation, so a phone's photo may lie on its side. On
   failure pixels is NULL and stbi_failure_reason() has the reason. */
VIT_INLINE vit_image vit_image_load(const char *path) {
    vit_image image = { NULL, 0, 0, 0, VIT_PIXEL_RGB8 };
    image.pixels = stbi_load(path, &image.width, &image.height, NULL, 3);
    return image;
}
/* Frees the pixels. */
VIT_INLINE void vit_image_free(vit_image *image) {
    stbi_image_free((void *)(uintptr_t)image->pixels);
    image->pixels = NULL;
}
#endif

/* ========================================================================== */
/*  The API ends here. The declarations for tools follow, then the code. */
/* ========================================================================== */

#if defined(VIT_IMPLEMENTATION) || defined(VIT_TOOLS)
#ifndef VIT__TOOLS_H
#define VIT__TOOLS_H

/* ------------------------------------------------------------------------- */
/* >>tools                                                                   */
/* ------------------------------------------------------------------------- */

/* Tensors, packing and checksums, for programs that inspect or write .vit files. These programs
   define VIT_TOOLS before they include vit.h. */

#ifdef __cplusplus
extern "C" {
#endif

/* VIT_ABI_OF_PROGRAM of the library's own vit.h, for callers without the header. */
VIT_API unsigned vit_abi(void);

/* The best tier of this CPU and build, at least VIT_ISA_SCALAR. */
VIT_API vit_isa vit_detect_isa(void);

/* 1 if this CPU and build have the tier. */
VIT_API int vit_has_isa(vit_isa isa);

/* The tier's name, such as "avx2". Never NULL; the string is static. */
VIT_API const char *vit_isa_name(vit_isa isa);

/* The phase's name, such as "patch_embed". Never NULL; the string is static. */
VIT_API const char *vit_phase_name(vit_phase phase);

/* WordNet id of class `index` ("n02123045"), or NULL if the file has none. */
VIT_API const char *vit_synset(const vit_model *model, int index);

/* The origin of the weights: lines of "key: value". Never NULL. */
VIT_API const char *vit_source(const vit_model *model);

/* Verifies the checksum of every tensor, and that the gaps between tensors are zero.
   VIT_ERROR_CORRUPT at the first difference, which detail describes. The open functions always
   verify section "fits16" if kernels of this build rely on it. */
VIT_API vit_result vit_model_verify(vit_model *model);

#ifndef VIT_NO_PREPROCESS
/* How vit_preprocess places the input on a photo that it resizes to width x height: pixel (x, y) of
   the input is pixel (x + left, y + top) of the resized photo. Coordinates below 0 or beyond the
   photo are padding. */
typedef struct vit_crop {
    int64_t width, height;
    int64_t left, top;
} vit_crop;

/* The photo has 1 to 2^20 pixels a side. */
VIT_API void vit_find_crop(const vit_config *config, int width, int height, vit_crop *crop);

/* Copies a model and gives the copy, if it is of VIT_CROP_ASPECT, the input size of a photo: its
   aspect ratio in at most as many patches (NaFlex, arXiv 2502.14786), or, with VIT_ROUND_NEAREST,
   with one side near resize_* and the other of any length. vit_run does so itself. The copy uses
   the bytes of `model`; never close it. Errors are those of vit_preprocess, and
   VIT_ERROR_UNSUPPORTED if the build has VIT_NO_DOUBLE. */
VIT_API vit_result vit_model_fit(const vit_model *model, const vit_image *image,
                                 vit_model *fitted);
#endif

/* x[i] = exp(x[i] - max) / sum for n scores, as torch.softmax. n < 1 does nothing. */
VIT_API void vit_softmax(float *x, int n);

/* x[i] = 1 / (1 + exp(-x[i])), as torch.sigmoid, within 2 ulp. Below -88 the result stays at 6e-39.
   NaN stays NaN. n < 1 does nothing. */
VIT_API void vit_sigmoid(float *x, int n);

/* Types of weights: X(enumerator, value, name). Files store the value. */
#define VIT_DTYPE_LIST(X)                                                      \
    X(VIT_F32, 0, "f32")                                                       \
    X(VIT_F16, 1, "f16")   /* IEEE binary16                                 */ \
    X(VIT_BF16, 2, "bf16") /* upper half of an f32; rounds the layer's input */ \
    X(VIT_I8, 3, "int8")   /* a scale for each row of weights and of inputs */ \
    X(VIT_I4, 4, "int4")   /* as int8, but a binary16 scale per 32 weights  */

typedef enum vit_dtype {
#define VIT_X(name, value, text) name = value,
    VIT_DTYPE_LIST(VIT_X)
#undef VIT_X
    VIT_NUM_DTYPES
} vit_dtype;

/* The order of a tensor's elements; see >>format. */
typedef enum vit_layout {
    VIT_LAYOUT_PLAIN = 0,  /* row-major                                          */
    VIT_LAYOUT_PANELS = 1, /* a linear layer [N, K]: panels of 16 rows           */
    VIT_LAYOUT_GROUPS = 2, /* as PANELS, for int4; a panel consists of groups of quads */
    VIT_NUM_LAYOUTS
} vit_layout;

typedef struct vit_tensor {
    char name[64];      /* as in timm: "blocks.11.mlp.fc2.weight"                */
    vit_dtype dtype;
    vit_layout layout;
    int ndim;
    int dims[4];        /* as in PyTorch; a panel layout has N = dims[0] and
                           K = the product of the others */
    const void *data;   /* within the file; NULL from vit_architecture_tensor    */
    uint64_t offset;    /* of data, from the start of the file                   */
    uint64_t size;      /* in bytes, including the padding of panels             */
    uint64_t checksum;  /* vit_hash of those bytes                               */
} vit_tensor;

/* Sets the derived fields of config, and checks the other fields against LIMITS and each other. On
   failure (CORRUPT, UNSUPPORTED), detail, if not NULL, names the field. */
VIT_API vit_result vit_config_check(vit_config *config, char detail[VIT_MAX_DETAIL]);

/* Tensor `index`, in file order, of an architecture with weights of type dtype: name, layout, dims,
   size and its own dtype. That is VIT_F32 where no other type is allowed (plain tensors, int8 and
   int4 with K beyond their limits). Returns 0 if index is past the last. */
VIT_API int vit_architecture_tensor(const vit_config *config, vit_dtype dtype, int index,
                                    vit_tensor *tensor);

/* Tensor `index` of an open model. Returns 0 if index is past the last. */
VIT_API int vit_model_tensor(const vit_model *model, int index, vit_tensor *tensor);

/* Equal for models that differ only in weights and texts: XXH64 of the config records, of each
   tensor's name, type, layout, shape and size, and of mean and std. */
VIT_API uint64_t vit_model_signature(const vit_model *model);

/* Packs rows [num_rows, depth] as one panel: 16 rows, or fewer in the last panel. Returns the
   panel's size in bytes; panel may be NULL to query it. */
VIT_API size_t vit_pack_panel(vit_dtype dtype, const float *rows, int num_rows, int depth,
                              void *panel);

/* 1 if an int8 panel obeys the rule of section "fits16", else 0. */
VIT_API int vit_fits16(const void *panel, int depth);

/* Row `row` of a tensor as f32, [K]: the inverse of packing. A row of a plain tensor spans all
   dimensions but the first. */
VIT_API void vit_unpack_row(const vit_tensor *tensor, int row, float *out);

/* Patches down and across. */
typedef struct vit_grid {
    int height, width;
} vit_grid;

#ifndef VIT_NO_DOUBLE
/* Resamples position embeddings from [from_grid.height, from_grid.width, dim] to [to_grid.height,
   to_grid.width, dim]. The bits are those of vit_model_resize. */
VIT_API void vit_resample_positions(vit_pos_resample how, int dim, const float *from,
                                    vit_grid from_grid, float *to, vit_grid to_grid);

/* Resamples a head's biases by relative position, [2 height - 1, 2 width - 1] of each grid.
   VIT_RESAMPLE_TRANSFORMERS is bilinear. All other values follow BEiT: the old distances are spread
   in geometric progression, so that the longest reaches the edge. */
VIT_API void vit_resample_relative(vit_pos_resample how, const float *from, vit_grid from_grid,
                                   float *to, vit_grid to_grid);

/* The angle of a pair of a head's elements, per row and per column. Each is a double, stored as the
   sum of three floats. The coordinate of patch p of n along a side is p + offset or, if scale is
   not 0, (p + offset) / n * scale + origin. */
typedef struct vit_rotation {
    float row[3], column[3];
    float offset, scale, origin;
} vit_rotation;

/* Cosine and sine of a pair's angle in patch `patch` of a grid, with the bits of
   vit_model_resize. */
VIT_API void vit_rope_angle(const vit_rotation *rotation, vit_grid grid, int patch,
                            float *cosine, float *sine);
#endif

/* XXH64 with seed 0 (Yann Collet, xxHash specification 0.1.1): init, update with any number
   of pieces, final. */
typedef struct vit_hash {
    uint64_t lane[4];
    uint64_t total;
    unsigned char block[32];
} vit_hash;

VIT_API void vit_hash_init(vit_hash *hash);
VIT_API void vit_hash_update(vit_hash *hash, const void *data, size_t size);
VIT_API uint64_t vit_hash_final(const vit_hash *hash);

/* The input of vit_selftest, [in_chans, img_height, img_width]: uniform in [-1, 1), by splitmix64
   (Steele, Lea, Flood 2014) from selftest_seed. A text encoder's has ids of tokens. */
VIT_API void vit_selftest_input(const vit_config *config, float *input);

/* ------------------------------------------------------------------------- */
/* >>format                                                                  */
/* ------------------------------------------------------------------------- */

/* Integers and floats are little-endian, offsets count from the start of the file, and
   bytes not described here are zero.

   HEADER, 64 bytes
      0   u8[8]  magic "\x89VIT\r\n\x1a\n" (like PNG's: detects text-mode transfers)
      8   u32    version, 1
      12  u32    num_sections
      16  u64    file_size, exact
      24  u64    meta_size: all sections but data and text end before it
      32  u64    meta_checksum: XXH64 of bytes [0, meta_size) with this field zero
      40  u64[3] zero

   SECTION TABLE, 32 bytes each, at 64
      0   u8[8]  tag: "fields" "tensors" "labels" "synsets" "source" "fits16" "learned"
                 "data" "text"; zero-padded
      8   u32 1 if a reader that does not implement the tag must refuse the file
      12  u32    count: of fields, tensors, strings
      16  u64    offset, a multiple of 8 (of the data and the text: of 64)
      24  u64    size

   "fields": one 32-byte record per architecture or preprocessing option. A reader skips unknown
   options, or refuses them by name if they are required. Options marked 2 in VIT_FIELD_LIST are
   stored, as required, only if not zero.
      0   u8[24] name as in vit_config ("embed_dim"), zero-padded
      24  u8     type: 0 = int32, 1 = float32
      25  u8     1 if required, else 0
      26  u8[2]  zero
      28  u32    the value's bits

   "tensors": one 128-byte record per tensor. They are exactly those of vit_architecture_tensor, in
   its order, and the data follows the same order.
      0   u8[64] name, NUL-terminated
      64  u32    dtype (vit_dtype)         68  u32  layout (vit_layout)
      72  u32    ndim                      76  u32[4] dims, unused ones zero
      92  u32    zero
      96  u64    offset, a multiple of 64  104 u64  size
      112 u64    checksum, XXH64           120 u64  zero

   "labels", "synsets": u32 offset[count] from the start of the section, then the NUL-terminated
   UTF-8 strings; the last byte of the section is zero. "source": UTF-8 lines "key: value\n", then a
   NUL. "fits16": u8[tensors]: 1 for an int8 tensor that obeys the rule below, otherwise 0. The rule
   lets CPUs add four products in 16 bits. A lane is weights k = 8 i + 0, 1, 4, 5 of a row, or k = 8
   i + 2, 3, 6, 7. In each lane, the q of one sign add up to at most 127. "data": the tensors. Gaps
   between them are zero.

   "learned": optional, what vit-learn keeps of photos. u64 hash of the backbone, u32 dim, u32 1 if
   a photo may have several classes, u32 classes, u32 zero; f16 embeddings[count][dim]; for each
   photo its class as u32, or one bit for each class, in whole bytes. The labels name the classes.

   "text": optional, after the data: a whole .vit file, the text encoder that belongs to the image
   encoder. Its offsets count from its own start.

   PLAIN tensors are row-major f32, as in PyTorch. PANELS hold the weight of a linear layer, y[n] =
   sum over k of w[n][k] x[k], in the order in which kernels read it: panels of 16 rows, each K
   deep. Missing rows are zero:
      f32, f16   [ceil(N / 16)][K][16]
      bf16       [ceil(N / 16)][ceil(K / 2)][16][2]: pairs of consecutive k, as dot-product
                 instructions read them; odd K is padded with zero
      int8       [ceil(N / 16)] of: i8 q[ceil(K / 4)][16][4], quads of consecutive
                 k, padded with zero; f32 scale[16]; i32 sum over k of q[16].
                 w = q * scale; -127 <= q <= 127; 4 <= K <= 65536
      int4       [ceil(N / 16)] of: ceil(K / 32) groups; f32 sum over k of w[16]. A group: f16
                 scale[16]; u8 q[4][16][4]. The lower four bits of q[i][n][j] are weight 4 i + j of
                 row n, the upper four weight 16 + 4 i + j; w = (q - 8) * scale; padded with q = 8;
                 16 <= K. The layout is VIT_LAYOUT_GROUPS. Readers refuse int4 in VIT_LAYOUT_PANELS,
                 of version 0.1.0 */

#define VIT_FILE_MAGIC "\x89VIT\r\n\x1a\n"
#define VIT_FILE_VERSION 1
#define VIT_ALIGN 64

enum {
    VIT_HEADER_VERSION = 8,
    VIT_HEADER_NUM_SECTIONS = 12,
    VIT_HEADER_FILE_SIZE = 16,
    VIT_HEADER_META_SIZE = 24,
    VIT_HEADER_CHECKSUM = 32,
    VIT_HEADER_RESERVED = 40,
    VIT_HEADER_SIZE = 64,

    VIT_SECTION_REQUIRED = 8,
    VIT_SECTION_COUNT = 12,
    VIT_SECTION_OFFSET = 16,
    VIT_SECTION_BYTES = 24,
    VIT_SECTION_SIZE = 32,

    VIT_FIELD_TYPE = 24,
    VIT_FIELD_REQUIRED = 25,
    VIT_FIELD_VALUE = 28,
    VIT_FIELD_SIZE = 32,

    VIT_TENSOR_DTYPE = 64,
    VIT_TENSOR_LAYOUT = 68,
    VIT_TENSOR_NDIM = 72,
    VIT_TENSOR_DIMS = 76,
    VIT_TENSOR_OFFSET = 96,
    VIT_TENSOR_BYTES = 104,
    VIT_TENSOR_CHECKSUM = 112,
    VIT_TENSOR_SIZE = 128
};

/* The fields of vit_config that files store: X(type, name, required, smallest, largest). required
   is 0 for an optional hint, 1 for a field that is always present, and 2 for one that is present,
   and required of the reader, unless zero. mean and std are tensors. vit_config has the steps to
   add one. */
#define VIT_FIELD_LIST(X)                                                      \
    X(int, in_chans, 1, 1, VIT_MAX_CHANS)                                      \
    X(int, img_height, 1, 1, 16384)                                            \
    X(int, img_width, 1, 1, 16384)                                             \
    X(int, patch_size, 1, 1, 1024)                                             \
    X(int, patch_stride, 2, 0, 1024)                                           \
    X(int, embed_dim, 1, 1, 16384)                                             \
    X(int, depth, 1, 0, 1024)                                                  \
    X(int, num_heads, 1, 1, 1024)                                              \
    X(int, head_dim, 1, 1, 4096)                                               \
    X(int, mlp_dim, 1, 0, 262144)                                              \
    X(int, num_classes, 1, 0, 1048576)                                         \
    X(int, representation_dim, 1, 0, 16384)                                    \
    X(int, representation_act, 2, 0, VIT_NUM_REPRESENTATIONS - 1)              \
    X(int, has_cls_token, 1, 0, 1)                                             \
    X(int, has_dist_token, 1, 0, 1)                                            \
    X(int, num_reg_tokens, 1, 0, 1024)                                         \
    X(int, positions, 1, 0, VIT_NUM_POSITIONS - 1)                             \
    X(int, has_patch_bias, 1, 0, 1)                                            \
    X(int, has_patch_norm, 1, 0, 1)                                            \
    X(int, has_pre_norm, 1, 0, 1)                                              \
    X(int, norm_type, 1, 0, VIT_NUM_NORM_TYPES - 1)                            \
    X(int, block_type, 1, 0, VIT_NUM_BLOCK_TYPES - 1)                          \
    X(int, attention, 2, 0, VIT_NUM_ATTENTIONS - 1)                            \
    X(int, has_qkv_bias, 1, 0, 1)                                              \
    X(int, has_qk_norm, 1, 0, 1)                                               \
    X(int, rope, 2, 0, VIT_NUM_ROPES - 1)                                      \
    X(int, rope_per_block, 2, 0, 1)                                            \
    X(int, has_rel_pos, 2, 0, 1)                                               \
    X(int, has_diff_attn, 2, 0, 1)                                             \
    X(int, has_attn_norm, 1, 0, 1)                                             \
    X(int, has_proj_bias, 1, 0, 1)                                             \
    X(int, has_layer_scale, 1, 0, 1)                                           \
    X(int, activation, 1, 0, VIT_NUM_ACTIVATIONS - 1)                          \
    X(int, has_gated_mlp, 1, 0, 1)                                             \
    X(int, has_mlp_norm, 1, 0, 1)                                              \
    X(int, has_final_norm, 1, 0, 1)                                            \
    X(int, pool, 1, 0, VIT_NUM_POOLS - 1)                                      \
    X(int, pool_prefix, 1, 0, 1)                                               \
    X(int, pool_num_heads, 2, 0, 1024)                                         \
    X(int, pool_mlp_dim, 2, 0, 262144)                                         \
    X(int, has_fc_norm, 1, 0, 1)                                               \
    X(int, head_activation, 2, 0, VIT_NUM_HEAD_ACTIVATIONS - 1)                \
    X(float, norm_eps, 1, 0, 1)                                                \
    X(float, attn_scale, 1, -1e6f, 1e6f)                                       \
    X(int, has_patch_pre_norm, 2, 0, 1)                                        \
    X(int, patch_cut, 2, 0, VIT_NUM_CUTS - 1)                                  \
    X(int, stem, 2, 0, VIT_NUM_STEMS - 1)                                      \
    X(int, stem_width, 2, 0, 512)                                              \
    X(int, stem_stage1, 2, 0, 99)                                              \
    X(int, stem_stage2, 2, 0, 99)                                              \
    X(int, stem_stage3, 2, 0, 99)                                              \
    X(int, stem_stage4, 2, 0, 99)                                              \
    X(int, vocab_size, 2, 0, 1048576)                                          \
    X(float, logit_scale, 2, 0, 1e6f)                                          \
    X(float, logit_bias, 2, -1e6f, 1e6f)                                       \
    X(int, resize_height, 0, 1, 32768)                                         \
    X(int, resize_width, 0, 1, 32768)                                          \
    X(int, crop_mode, 0, 0, VIT_NUM_CROP_MODES - 1)                            \
    X(int, crop_rounding, 2, 0, VIT_NUM_CROP_ROUNDINGS - 1)                    \
    X(int, interpolation, 0, 0, VIT_NUM_INTERPOLATIONS - 1)                    \
    X(int, dynamic_img_size, 2, 0, 1)                                          \
    X(int, dynamic_img_pad, 2, 0, 1)                                           \
    X(int, pos_resample, 2, 0, VIT_NUM_POS_RESAMPLES - 1)                      \
    X(float, crop_pct, 2, 0, 4)                                                \
    X(int, selftest_seed, 0, 0, 2147483647)                                    \
    X(float, selftest_tolerance, 0, 0, 1)                                      \
    X(int, merge_size, 2, 0, 16)                                               \
    X(int, merge_dim, 2, 0, 65536)                                             \
    X(int, merge_mlp_dim, 2, 0, 262144)                                        \
    X(int, merge_norm, 2, 0, 2)                                                \
    X(int, merge_act, 2, 0, VIT_NUM_ACTIVATIONS - 1)

#ifdef __cplusplus
}
#endif
#endif /* VIT__TOOLS_H */
#endif

#if defined(VIT_IMPLEMENTATION) && !defined(VIT__IMPLEMENTED)
#define VIT__IMPLEMENTED 1

/* ------------------------------------------------------------------------- */
/* >>extending                                                               */
/* ------------------------------------------------------------------------- */

/* To add a value to an enum of vit_config, write a line before its VIT_NUM_..., which makes the
   loader accept it, and a word in tools/model/setting_list.h. Then each enum needs:

      vit_crop_mode        its sizes in vit_find_crop; if it pads, the colour in vit__write_row
      vit_crop_rounding    vit__crop_offset, vit__patches
      vit_interpolation    its parameter and support in vit__photo_axis_init
      vit_stem             its layers in VIT__FRONT_LIST, vit__check_stem, vit__largest_map; its
                           pass in >>stem, called by vit__stem_rows; settings_stem_stride and
                           layout_input_weight in tools
      vit_pos_resample     a row of vit__pos_filters
      vit_norm_type        its formula in norm_row (>>body), which tells the existing two apart by
                           the bias; letter l of >>arch if the norm has one
      vit_block_type       vit__shares_norm, >>block, letters of >>arch if its layers differ;
                           vit_config_check if it excludes options
      vit_rope             rotate (>>body)
      vit_patch_cut        vit__gather_patch
      vit_attention        vit__block, letter A of >>arch
      vit_activation       a line in vit_representation too; activate (>>body), and activate in
                           tests/test_random.c, in double; tests/test_values.c tries it
      vit_pool             vit__pool_image, vit__pooled_dim; rows of VIT__TAIL_LIST if it has
                           weights; vit_config_check if it excludes options
      vit_head_activation  vit_scores

   -Wswitch names most of these places, and tests/test_random.c has an independent reference for
   each.

   To add an option: a member of vit_config, zero for "as before"; a row of VIT_FIELD_LIST with
   required 2, so that older readers refuse only files that use it; vit_config_check if it excludes
   others; rows of >>arch for its layers; its effect, in >>embed, >>block, >>head or >>preprocess.
   Loading, writing, --c-array and vit-info follow the list.

   To add a pixel format: its bytes in vit__pixel_size and vit__row_size, its colours in
   vit__read_pixel, a case in vit__turn_any.

   To add an instruction set: a line of VIT_ISA_LIST; a macro that is 1 if the build has it
   (>>platform); its words, tiles and table (>>words); a line of VIT__TIER_LIST and its detection
   (>>dispatch). For a macro that leaves it out: a line under CONFIGURATION and in tests/compile.sh.

   To add a type of weights: a line of VIT_DTYPE_LIST; its layout under >>format; its bit of
   VIT__DTYPES and a macro that is 1 if the build has it (>>platform); vit__panel_bytes,
   vit__panel_index, vit__weight, vit_pack_panel, vit__has_dtype; a kernel in VIT__KERNELS and in
   the table of each tier, where vit__gemm_body's is enough; in the tests a row of each table of
   VIT_NUM_DTYPES.

   To add a result: a row of VIT_RESULT_LIST. To add a phase: a row of VIT_PHASE_LIST, and a call of
   vit__phase where it begins. */

/* ------------------------------------------------------------------------- */
/* >>platform                                                                */
/* ------------------------------------------------------------------------- */

/* Macros that are 0 or 1 for everything that depends on the compiler, the CPU family or the
   operating system. Later sections test only these. */

/* VIT__IS(x) is 1 if macro x is defined empty or as 1, else 0. It takes the second of the two
   arguments that VIT__ONE_1 and VIT__ONE_ expand to; other words expand to one. */
#define VIT__ONE_ 0,
#define VIT__ONE_1 0,
#define VIT__SECOND(first, second, ...) second
#define VIT__IS_LIST(list) VIT__SECOND(list 1, 0, 0)
#define VIT__IS_VALUE(value) VIT__IS_LIST(VIT__ONE_##value)
#define VIT__IS(x) VIT__IS_VALUE(x)

/* Compilers, by version; 0 for others. GNU C (gcc, and clang except for Microsoft's targets) has
   assembly, attributes and builtins. Microsoft's dialect has intrinsics. */
#if defined(__clang__)
#    define VIT__CLANG __clang_major__
#else
#    define VIT__CLANG 0
#endif
#if defined(__GNUC__)
#    define VIT__GNU 1
#else
#    define VIT__GNU 0
#endif
#if defined(_MSC_VER) && !VIT__GNU
#    define VIT__MSVC _MSC_VER
#else
#    define VIT__MSVC 0
#endif
#if VIT__GNU && !VIT__CLANG
#    define VIT__GCC __GNUC__
#else
#    define VIT__GCC 0
#endif
#define VIT__SINCE(gcc, clang, msvc)                                                              \
    (VIT__CLANG ? VIT__CLANG >= (clang) : VIT__GCC ? VIT__GCC >= (gcc) : VIT__MSVC >= (msvc))

#if defined(__x86_64__) || (defined(_M_X64) && !defined(_M_ARM64EC))
#    define VIT__X86_64 1
#else
#    define VIT__X86_64 0
#endif
#if defined(__aarch64__) || defined(_M_ARM64)
#    define VIT__ARM64 1
#else
#    define VIT__ARM64 0
#endif

#if defined(VIT_MALLOC) != defined(VIT_FREE)
#    error "vit.h: define both VIT_MALLOC(size) and VIT_FREE(ptr), or neither"
#endif

/* Compilers call these four functions implicitly. Freestanding toolchains may lack the header that
   declares them. */
#if defined(VIT_BARE_METAL) && defined(__has_include)
#    if !__has_include(<string.h>)
#        define VIT__NO_STRING_H 1
#    endif
#endif
#if defined(VIT__NO_STRING_H)
#    if defined(__cplusplus)
extern "C" {
#    endif
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int memcmp(const void *a, const void *b, size_t size);
#    if defined(__cplusplus)
}
#    endif
#else
#    include <string.h>
#endif

/* Freestanding compilers would call these functions even to copy four bytes. */
#if defined(__GNUC__) && defined(__STDC_HOSTED__)
#    if !__STDC_HOSTED__
#        define VIT__BUILTIN_COPIES
#        define memcpy __builtin_memcpy
#        define memset __builtin_memset
#        define memcmp __builtin_memcmp
#    endif
#endif

#if !defined(VIT_NO_MALLOC) && !defined(VIT_MALLOC)
#    include <stdlib.h>
#    define VIT_MALLOC(size) malloc(size)
#    define VIT_FREE(ptr) free(ptr)
#endif

#ifndef VIT_MAX_THREADS
#    define VIT_MAX_THREADS 256
#endif

/* Fails to compile, with `name` in the message, unless the condition holds. */
#define VIT__STATIC_ASSERT(condition, name) typedef char vit__##name[(condition) ? 1 : -1]

/* Joins two words after expanding them. */
#define VIT__PASTE_OF(a, b) a##b
#define VIT__PASTE(a, b) VIT__PASTE_OF(a, b)

/* Counts the rows of a list of three columns: 0 VIT_ISA_LIST(VIT__ONE_MORE). */
#define VIT__ONE_MORE(a, b, c) +1

/* Intermediate results wider than float would change every output. */
#if defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2)
#    error "vit.h: float is computed wider: add -msse2 -mfpmath=sse or -fexcess-precision=fast"
#endif

#if defined(__BYTE_ORDER__) && defined(__ORDER_BIG_ENDIAN__)
#    define VIT__BIG_ENDIAN (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
#else
#    define VIT__BIG_ENDIAN 0
#endif

#define VIT__WINDOWS VIT__IS(_WIN32)

/* Builds for one architecture have a constant vit_config, and compilers remove the code that it
   does not need. */
#if defined(VIT_FIXED)
#    if VIT__PASTE(VIT_FIXED, _VERSION) != VIT_VERSION
#        error "vit.h: the header that VIT_FIXED names is from another version of vit-convert"
#    endif
static const vit_config vit__fixed = VIT__PASTE(VIT_FIXED, _CONFIG);
#    define VIT__IS_FIXED 1
#    define VIT__FIXED_OR(name, otherwise) (vit__fixed.name)
#    define VIT__CONFIG(model) ((void)(model), &vit__fixed)
#    define VIT__DTYPES VIT__PASTE(VIT_FIXED, _DTYPES)
#    define VIT__ATTENTION VIT__PASTE(VIT_FIXED, _ATTENTION)
#    define VIT__SIGNATURE VIT__PASTE(VIT_FIXED, _SIGNATURE)
#else
#    define VIT__IS_FIXED 0
#    define VIT__FIXED_OR(name, otherwise) (otherwise)
#    define VIT__CONFIG(model) (&(model)->config)
#    define VIT__DTYPES 31u
#    define VIT__ATTENTION 31u
#    define VIT__SIGNATURE 0
#endif

/* Types of weights in this build, one bit for each vit_dtype: VIT__DTYPES of all layers,
   VIT__ATTENTION of the layers that feed attention. */
#define VIT__HAS_F16 (VIT__IS(VIT_NO_F16) ? 0 : VIT__DTYPES >> 1 & 1)
#define VIT__HAS_BF16 (VIT__IS(VIT_NO_BF16) ? 0 : VIT__DTYPES >> 2 & 1)
#define VIT__HAS_INT8 (VIT__IS(VIT_NO_INT8) ? 0 : VIT__DTYPES >> 3 & 1)
#define VIT__HAS_INT4 (VIT__IS(VIT_NO_INT4) ? 0 : VIT__DTYPES >> 4 & 1)
#define VIT__HAS_U8 (VIT__HAS_INT8 || VIT__HAS_INT4) /* quantised inputs, 8 bits */
#if VIT__IS_FIXED && VIT__DTYPES >> 1 != (VIT__HAS_F16 | VIT__HAS_BF16 << 1 | \
                                          VIT__HAS_INT8 << 2 | VIT__HAS_INT4 << 3)
#    error "vit.h: a macro VIT_NO_... leaves out a type of weights that the model of VIT_FIXED has"
#endif

/* The arithmetic of attention in this build: integers, floats or both. */
#define VIT__IN_INTEGERS                                                       \
    ((VIT__HAS_INT8 && (VIT__ATTENTION >> 3 & 1)) || (VIT__HAS_INT4 && (VIT__ATTENTION >> 4 & 1)))
#define VIT__IN_FLOATS ((VIT__ATTENTION & 7) != 0)

#if defined(VIT_NO_TEXT)
#    define VIT__TEXTS 0
#    define VIT__TEXT(string) NULL
#else
#    define VIT__TEXTS 1
#    define VIT__TEXT(string) string
#endif

#define VIT__LOGITS_ONLY VIT__IS(VIT_LOGITS_ONLY)
#define VIT__EXECUTOR (!VIT__IS(VIT_NO_EXECUTOR))
#define VIT__TEXT_ENCODER VIT__IS(VIT_TEXT_ENCODER)
#define VIT__MMAP (!VIT__IS(VIT_NO_STDIO) && !VIT__IS(VIT_NO_MMAP))     /* needs files */
#define VIT__POOL (!VIT__IS(VIT_NO_THREADS) && !VIT__IS(VIT_NO_MALLOC)) /* allocates itself */

/* A small windows.h, included only by the implementation. */
#if VIT__WINDOWS && (VIT__MMAP || VIT__POOL || !defined(VIT_NO_STDIO))
#    ifndef WIN32_LEAN_AND_MEAN
#        define WIN32_LEAN_AND_MEAN
#    endif
#    ifndef NOMINMAX
#        define NOMINMAX
#    endif
#    include <windows.h>
#endif

/* These headers declare everything used here under -std=c99, without feature macros. */
#if !VIT__WINDOWS && VIT__MMAP
#    include <fcntl.h>
#    include <sys/mman.h>
#    include <sys/stat.h>
#    include <unistd.h>
#endif
#if !VIT__WINDOWS && VIT__POOL
#    include <pthread.h>
#    include <unistd.h>
#    if defined(__linux__)
#        include <sys/prctl.h>
#    endif
#endif

/* CPU affinity and quotas are read from /proc and /sys. Tests put VIT__ROOT in front of these
   paths. */
#if defined(__linux__) && VIT__POOL && !defined(VIT_NO_STDIO)
#    define VIT__PROC 1
#    define VIT__PATH 1024
#    ifndef VIT__ROOT
#        define VIT__ROOT ""
#    endif
#else
#    define VIT__PROC 0
#endif
#ifndef VIT_NO_STDIO
#    include <errno.h>
#    include <limits.h>
#    include <stdio.h>
#endif

/* A build without optimisation is for debugging and is compiled often. It sets VIT__SMALL and has
   no tiers beyond AVX2, which give the same bits. VIT_UNOPTIMIZED keeps all of them. */
#if VIT__GNU && !defined(VIT_UNOPTIMIZED) && !defined(__OPTIMIZE__) /* pragmas change it below */
#    define VIT__UNOPTIMIZED 1
#else
#    define VIT__UNOPTIMIZED 0
#endif

/* The kernels of this build. All tiers of the CPU family are compiled in, regardless of the
   compiler's flags, and one is chosen at run time. A compiler that may use FMA would fuse the
   products of SSE2, so that tier is left out; plain C then uses FMA too. */
#if !defined(VIT_NO_SIMD) && !defined(VIT_NO_SSE2) && !defined(__FMA__) && !defined(__FMA4__)
#    if (VIT__GNU && defined(__SSE2__)) || (VIT__MSVC && VIT__X86_64 && !defined(__AVX2__))
#        define VIT__SSE2 1
#    endif
#endif
#if !defined(VIT__SSE2)
#    define VIT__SSE2 0
#endif
#if !defined(VIT_NO_SIMD) && !defined(VIT_NO_AVX2) && VIT__X86_64 && VIT__SINCE(1, 1, 1920)
#    define VIT__AVX2 1
#else
#    define VIT__AVX2 0
#endif
#if VIT__AVX2 && !defined(VIT_NO_AVX512) && !VIT__UNOPTIMIZED
#    define VIT__AVX512 1
#else
#    define VIT__AVX512 0
#endif
/* Instructions that need a recent compiler and assembler. */
#if VIT__AVX2 && VIT__SINCE(11, 12, 1930) && !VIT__UNOPTIMIZED
#    define VIT__AVXVNNI 1
#else
#    define VIT__AVXVNNI 0
#endif
#if VIT__AVX512 && VIT__SINCE(10, 9, 1930)
#    define VIT__AVX512BF16 1
#else
#    define VIT__AVX512BF16 0
#endif

/* 64-bit ARM. In GNU C the tiers beyond the base use inline assembly, because clang before 16
   offers their intrinsics only to whole files. */
#if !defined(VIT_NO_SIMD) && !defined(VIT_NO_NEON) && VIT__ARM64 && !defined(__AARCH64EB__) && \
    ((VIT__GNU && defined(__ARM_NEON)) || VIT__MSVC)
#    define VIT__NEON 1
#else
#    define VIT__NEON 0
#endif
#if VIT__NEON && VIT__SINCE(8, VIT__MSVC ? 16 : 1, 1930)
#    define VIT__NEON_DOTPROD 1
#else
#    define VIT__NEON_DOTPROD 0
#endif
#if VIT__NEON_DOTPROD && VIT__SINCE(10, 13, 9999)
#    define VIT__NEON_I8MM 1 /* and bf16, which cl.exe lacks */
#else
#    define VIT__NEON_I8MM 0
#endif

/* 32-bit ARM, by the compiler's flags: Cortex-M has no detection at run time. */
#if !defined(VIT_NO_SIMD) && VIT__GNU && defined(__ARM_FEATURE_SIMD32) && \
    !defined(__ARM_BIG_ENDIAN)
#    define VIT__CORTEX 1
#else
#    define VIT__CORTEX 0
#endif
#if VIT__CORTEX && !defined(VIT_NO_HELIUM) && defined(__ARM_FEATURE_MVE)
#    if __ARM_FEATURE_MVE == 3 /* integers and floats */
#        define VIT__HELIUM 1
#    endif
#endif
#if !defined(VIT__HELIUM)
#    define VIT__HELIUM 0
#endif
#if VIT__CORTEX && !VIT__HELIUM && !defined(VIT_NO_SMLAD) && VIT__HAS_U8
#    define VIT__SMLAD 1
#else
#    define VIT__SMLAD 0
#endif

/* WebAssembly. Engines accept or refuse a module as a whole. */
#if !defined(VIT_NO_SIMD) && !defined(VIT_NO_WASM_SIMD) && defined(__wasm_simd128__)
#    define VIT__WASM_SIMD 1
#else
#    define VIT__WASM_SIMD 0
#endif

/* Kernels that add products of int8 in 16 bits, if section "fits16" of the file allows it. */
#define VIT__ADDS_16 (VIT__AVX2 || (VIT__WASM_SIMD && VIT__IS(__wasm_relaxed_simd__)))

/* The plain C tier exists only where it may be the best one or was requested. Builds for one model
   and one CPU with a better tier omit it, and so do CPUs that always have a vector tier. */
#if VIT__IS_FIXED && (VIT__SMLAD || VIT__HELIUM)
#    define VIT__SCALAR 0
#elif !defined(VIT_SCALAR) && ((VIT__SSE2 && VIT__X86_64) || VIT__NEON || VIT__WASM_SIMD)
#    define VIT__SCALAR 0
#else
#    define VIT__SCALAR 1
#endif

/* Tiers with vectors. */
#define VIT__SIMD (VIT__SSE2 || VIT__AVX2 || VIT__NEON || VIT__HELIUM || VIT__WASM_SIMD)

/* VIT_FIXED: the model has a layer, or attention, in f32. */
#define VIT__HAS_F32 (VIT__DTYPES % 2 || VIT__ATTENTION % 4 || (VIT__SIMD && !VIT__HELIUM))

/* A build for one model reads section "fits16" only if its kernels rely on it. */
#define VIT__HAS_FITS16 (VIT__ADDS_16 || !VIT__IS_FIXED)

#if VIT__NEON
#    include <arm_neon.h>
#endif
#if VIT__HELIUM
#    include <arm_mve.h>
#endif
#if VIT__WASM_SIMD
#    include <wasm_simd128.h>
#endif
/* How the instructions of an ARM CPU are detected at run time. */
#define VIT__ASKS (VIT__NEON && !VIT__IS(VIT_BARE_METAL))
#if VIT__ASKS && defined(__linux__) && defined(__has_include)
#    if __has_include(<sys/auxv.h>)
#        include <sys/auxv.h>
#        define VIT__AUXV 1
#    endif
#elif VIT__ASKS && defined(__APPLE__)
#    include <sys/types.h>
#    include <sys/sysctl.h>
#endif

#if VIT__SSE2
#    include <emmintrin.h>
#endif

/* g++ 12 warns inside its own avx512 headers (gcc bug 105593). */
#if VIT__AVX2
#    if VIT__GCC
#        pragma GCC diagnostic push
#        pragma GCC diagnostic ignored "-Wuninitialized"
#        pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#    endif
#    if VIT__GNU
#        include <cpuid.h>
#    endif
#    include <immintrin.h>
#    if VIT__GCC
#        pragma GCC diagnostic pop
#    endif
#endif
#if VIT__MSVC
#    include <intrin.h>
#endif
/* clang before 17 omits these headers for Microsoft's targets. */
#if VIT__MSVC && VIT__AVX2 && VIT__CLANG && VIT__CLANG < 17
#    include <smmintrin.h>
#    include <avxintrin.h>
#    include <avx2intrin.h>
#    include <f16cintrin.h>
#    include <fmaintrin.h>
#    include <avxvnniintrin.h>
#    include <avx512fintrin.h>
#    include <avx512vlintrin.h>
#    include <avx512bwintrin.h>
#    include <avx512dqintrin.h>
#    include <avx512vlbwintrin.h>
#    include <avx512vldqintrin.h>
#    include <avx512vnniintrin.h>
#    include <avx512bf16intrin.h>
#endif

/* A region of functions compiled for a larger instruction set than the rest of the file. Vector
   types must not be passed across its border; plain C bodies may be inlined into it. */
#define VIT__PRAGMA(...) _Pragma(#__VA_ARGS__)
#ifndef VIT__TARGET_BEGIN /* tests/simde emulates missing instructions */
#    if VIT__SIMD && VIT__CLANG
#        define VIT__TARGET_WIDTH(bits)
#        define VIT__TARGET_BEGIN(isa)                                                            \
            VIT__PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#        define VIT__TARGET_END VIT__PRAGMA(clang attribute pop)
#    elif VIT__MSVC
#        define VIT__TARGET_WIDTH(bits)
#        define VIT__TARGET_BEGIN(isa)
#        define VIT__TARGET_END
#    elif VIT__SIMD /* needed for gcc to use full-width registers in plain C and memcpy */
#        define VIT__TARGET_WIDTH(bits) ",prefer-vector-width=" #bits
#        define VIT__TARGET_BEGIN(isa) VIT__PRAGMA(GCC push_options) VIT__PRAGMA(GCC target(isa))
#        define VIT__TARGET_END VIT__PRAGMA(GCC pop_options)
#    endif
/* x86: c += dot products of x and w, and c += sum. GNU C uses assembly, because gcc 12 spills or
   copies the accumulators of these intrinsics. */
#    if VIT__GNU
#        define VIT__DOT(in, instruction, intrinsic, c, x, w)                                     \
            __asm__(instruction " %2, %1, %0" : "+" in(c) : in(x), in(w));
#        define VIT__ADD(instruction, intrinsic, c, sum)                                          \
            __asm__(instruction " %1, %0, %0" : "+v"(c) : "v"(sum));
#    else
#        define VIT__DOT(in, instruction, intrinsic, c, x, w) c = intrinsic(c, x, w);
#        define VIT__ADD(instruction, intrinsic, c, sum) c = intrinsic(c, sum);
#    endif
#endif
#define VIT__TARGET_HASWELL "avx2,fma,f16c"
#define VIT__TARGET_SKYLAKE VIT__TARGET_HASWELL ",avx512f,avx512bw,avx512dq,avx512vl"

#if VIT__CLANG
#    define VIT__TARGET_NEON(feature) feature
#elif VIT__NEON && __ARM_ARCH >= 9
#    define VIT__TARGET_NEON(feature) "+" feature
#else /* binutils up to 2.40 need the base architecture too */
#    define VIT__TARGET_NEON(feature) "arch=armv8.2-a+" feature
#endif

/* Kernel steps in assembly for GNU C: from intrinsics, gcc 12 and clang 14 spill the accumulators
   or move loads up and down. Other compilers get the same steps as intrinsics. */
#if VIT__GNU
#    define VIT__HIDE_SSE2(x) __asm__("" : "+x"(x));
#    define VIT__HIDE(x) __asm__("" : "+r"(x)); /* pointer or integer */
#    define VIT__ADD_SSE2(c, sum) __asm__("paddd %1, %0" : "+x"(c) : "x"(sum));
#    define VIT__ADD_F32_SSE2(c, product) __asm__("addps %1, %0" : "+x"(c) : "x"(product));
#    define VIT__MADDUBS_AVX2(sum, x, w) /* w: a pointer */                                       \
        __asm__("vpmaddubsw %2, %1, %0" : "=x"(sum) : "x"(x), "m"(*(w)));
#    define VIT__FENCE_NEON __asm__ __volatile__("" : : : "memory");
#    define VIT__FMLA_NEON(c, w, x)                                                               \
        __asm__("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(c) : "w"(w), "w"(x));
#    define VIT__SDOT_NEON(c, w, x)                                                               \
        __asm__("sdot %0.4s, %1.16b, %2.4b[0]" : "+w"(c) : "w"(w), "w"(x));
#    define VIT__SMMLA_NEON(c, x, w)                                                              \
        __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(c) : "w"(x), "w"(w));
#else
#    define VIT__HIDE_SSE2(x)
#    define VIT__HIDE(x)
#    define VIT__ADD_SSE2(c, sum) c = _mm_add_epi32(c, sum);
#    define VIT__ADD_F32_SSE2(c, product) c = _mm_add_ps(c, product);
#    define VIT__MADDUBS_AVX2(sum, x, w) sum = _mm256_maddubs_epi16(x, _mm256_loadu_si256(w));
#    define VIT__FENCE_NEON
#    define VIT__FMLA_NEON(c, w, x) c = vfmaq_n_f32(c, w, x);
#    define VIT__SDOT_NEON(c, w, x)                                                               \
        c = vdotq_lane_s32(c, w, vreinterpret_s8_f32(vdup_n_f32(x)), 0);
#    define VIT__SMMLA_NEON(c, x, w) c = vmmlaq_s32(c, vreinterpretq_s8_u8(x), w);
#endif

/* memcpy for use inside a region, where gcc does not inline libc's own wrapper. */
#if VIT__GNU
#    define VIT__COPY __builtin_memcpy
#else
#    define VIT__COPY memcpy
#endif

/* a * b + c, rounded once, by one instruction in the tiers that have it. */
#if VIT__GNU
#    define VIT__FMA(a, b, c) __builtin_fmaf(a, b, c)
#elif VIT__NEON
#    define VIT__FMA(a, b, c)                                                                     \
        vget_lane_f32(vfma_f32(vdup_n_f32(c), vdup_n_f32(a), vdup_n_f32(b)), 0)
#elif VIT__AVX2
#    define VIT__FMA(a, b, c)                                                                     \
        _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)))
#endif

/* The FPU's square root, correctly rounded: VIT__SQRT(x) replaces x. */
#if VIT__GNU && defined(__SSE__)
#    define VIT__SQRT(x) __asm__("sqrtss %0, %0" : "+x"(x))
#elif VIT__GNU && defined(__aarch64__)
#    define VIT__SQRT(x) __asm__("fsqrt %s0, %s0" : "+w"(x))
#elif VIT__GNU && defined(__arm__) && defined(__ARM_FP)
#    if __ARM_FP & 4
#        define VIT__SQRT(x) __asm__("vsqrt.f32 %0, %0" : "+t"(x))
#    endif
#elif VIT__MSVC && VIT__X86_64
#    define VIT__SQRT(x) x = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)))
#elif VIT__MSVC && VIT__NEON
#    define VIT__SQRT(x) x = vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0)
#endif

/* Fewer copies of loops, with the same bits, for -Os and unoptimised builds. */
#if defined(__OPTIMIZE_SIZE__) || VIT__UNOPTIMIZED
#    define VIT__SMALL 1
#else
#    define VIT__SMALL 0
#endif

/* Bodies shared by the tiers must be inlined into each tier's wrapper; otherwise they would use the
   file's base instruction set. */
#if VIT__GNU
#    define VIT__NOINLINE __attribute__((noinline))
#    define VIT__INLINE static inline __attribute__((always_inline))
#    define VIT__ALIGNED_64 __attribute__((aligned(64)))
#elif VIT__MSVC
#    define VIT__NOINLINE __declspec(noinline)
#    define VIT__INLINE static __forceinline
#    define VIT__ALIGNED_64 __declspec(align(64))
#else
#    define VIT__INLINE static inline
#endif

/* Unoptimised, a forward pass takes 25 times as long by gcc and 60 times by clang, so a message
   warns. gcc's pragma still optimises >>math to >>words; clang has none. */
#if VIT__UNOPTIMIZED || (!defined(VIT_UNOPTIMIZED) && !VIT__GNU && defined(_DEBUG))
#    pragma message("vit.h is compiled without optimisation: use -O2, or define VIT_UNOPTIMIZED")
#endif
#if VIT__UNOPTIMIZED && VIT__GCC
#    define VIT__OPTIMIZE_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize (\"O1\")")
#    define VIT__OPTIMIZE_END _Pragma("GCC pop_options")
#else
#    define VIT__OPTIMIZE_BEGIN
#    define VIT__OPTIMIZE_END
#endif

/* Cold code is compiled for size, which saves a fifth of the compile time and a seventh of the
   code. COMPACT code, the loops over pixels and rows, is compiled for size in WebAssembly only,
   where a module is fetched before it runs. */
#define VIT__SIZE_CLANG                                                                           \
    _Pragma("clang attribute push(__attribute__((minsize)), apply_to = function)")
#if VIT__CLANG && defined(__OPTIMIZE__) && (defined(__wasm__) || !defined(__OPTIMIZE_SIZE__))
#    define VIT__COLD_BEGIN VIT__SIZE_CLANG
#    define VIT__COLD_END _Pragma("clang attribute pop")
#elif VIT__GCC && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#    define VIT__COLD_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize (\"Os\")")
#    define VIT__COLD_END _Pragma("GCC pop_options")
#else
#    define VIT__COLD_BEGIN
#    define VIT__COLD_END
#endif
#if VIT__CLANG && defined(__wasm__)
#    define VIT__COMPACT_BEGIN VIT__SIZE_CLANG
#    define VIT__COMPACT_END _Pragma("clang attribute pop")
#else
#    define VIT__COMPACT_BEGIN
#    define VIT__COMPACT_END
#endif

/* Inline, except with -Os, where calls save code and keep the frame out of the caller's. */
#if VIT__SMALL && VIT__GNU
#    define VIT__CALL __attribute__((noinline)) static
#else
#    define VIT__CALL static inline
#endif

/* Asserts that a pointer is a multiple of 4: some CPUs need that to load a float, or any word, in
   one instruction. */
#if VIT__GNU
#    define VIT__ALIGNED_4(p) __builtin_assume_aligned(p, 4)
#else
#    define VIT__ALIGNED_4(p) (p)
#endif

/* Hints that the cache line of an address will be needed. */
#if VIT__GNU
#    define VIT__PREFETCH(p) __builtin_prefetch(p)
#elif VIT__SSE2 || VIT__AVX2
#    define VIT__PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#elif VIT__MSVC && VIT__ARM64
#    define VIT__PREFETCH(p) __prefetch(p)
#else
#    define VIT__PREFETCH(p) ((void)(p))
#endif

/* The fused multiply-add is one instruction if the base instruction set has it or compiler flags
   promise it. Elsewhere the plain C tier computes it in software. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || VIT__ARM64 || \
    defined(__riscv_flen) || defined(__s390x__) || defined(__FP_FAST_FMAF)
#    define VIT__HAS_FMA 1
#else
#    define VIT__HAS_FMA 0
#endif

/* ------------------------------------------------------------------------- */
/* >>util                                                                    */
/* ------------------------------------------------------------------------- */

/* Small integers, byte order, messages (there is no printf), checksums, half floats. All reads
   of a file, which is little-endian bytes, use these loads. */

VIT__INLINE int vit__min(int a, int b) { return a < b ? a : b; }
VIT__INLINE int vit__max(int a, int b) { return a > b ? a : b; }
VIT__INLINE int vit__ceil_div(int a, int b) { return (a + b - 1) / b; }
VIT__INLINE int vit__round_up(int a, int b) { return vit__ceil_div(a, b) * b; }
VIT__INLINE size_t vit__max_size(size_t a, size_t b) { return a > b ? a : b; }
VIT__INLINE uint64_t vit__max64(uint64_t a, uint64_t b) { return a > b ? a : b; }
VIT__INLINE uint64_t vit__round64(uint64_t n) { return (n + 15) / 16 * 16; }

VIT__INLINE uint32_t vit__u32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

VIT__INLINE uint64_t vit__u64(const unsigned char *p) {
    return (uint64_t)vit__u32(p) | (uint64_t)vit__u32(p + 4) << 32;
}

VIT__INLINE uint32_t vit__bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

VIT__INLINE float vit__float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* Converts between the byte orders of this CPU and of the file, in either direction. */
VIT__INLINE uint16_t vit__le16(uint16_t x) {
    return VIT__BIG_ENDIAN ? (uint16_t)(x << 8 | x >> 8) : x;
}

VIT__INLINE uint32_t vit__le32(uint32_t x) {
    if (!VIT__BIG_ENDIAN) return x;
    return x << 24 | (x & 0xff00u) << 8 | (x >> 8 & 0xff00u) | x >> 24;
}

/* An element of a tensor in the file. All file values must be read through this function: it swaps
   bytes on big-endian CPUs. */
VIT__INLINE float vit__stored(const float *p) {
    return VIT__BIG_ENDIAN ? vit__float(vit__u32((const unsigned char *)p)) : *p;
}

/* Copies n f32 or i32 values between the byte orders of file and CPU. */
VIT__INLINE void vit__copy_stored(void *to, const void *from, size_t n) {
    const unsigned char *in = (const unsigned char *)from;
    unsigned char *out = (unsigned char *)to;
    uint32_t bits;
    if (!VIT__BIG_ENDIAN) memcpy(to, from, n * 4);
    else
        for (; n; n--, in += 4, out += 4) bits = vit__u32(in), memcpy(out, &bits, 4);
}

/* p must be a multiple of 4. */
VIT__INLINE float vit__load_float(const unsigned char *p) {
    float x;
    memcpy(&x, VIT__ALIGNED_4(p), 4);
    return x;
}

/* A float of a panel, in the file's byte order. */
VIT__INLINE float vit__panel_float(const unsigned char *p) {
    return VIT__BIG_ENDIAN ? vit__float(vit__u32(p)) : vit__load_float(p);
}

/* 4 bytes of a panel or of an input row: an f32, a pair of bf16 or a quad of int8. */
VIT__INLINE int vit__load32(const unsigned char *p) {
    int bits;
    memcpy(&bits, VIT__ALIGNED_4(p), 4);
    return bits;
}

/* Bytes to allocate; 0 if they exceed the address space. */
VIT__INLINE size_t vit__size(uint64_t bytes) { return bytes <= SIZE_MAX ? (size_t)bytes : 0; }

/* Works under -ffast-math too, where x != x does not. */
VIT__INLINE int vit__is_nan(float x) { return (vit__bits(x) & 0x7fffffffu) > 0x7f800000u; }
VIT__INLINE int vit__is_finite(float x) { return (vit__bits(x) & 0x7f800000u) != 0x7f800000u; }

/* The larger one; NaN if either is NaN, except as at VIT__SPREADS_NAN. */
VIT__INLINE float vit__larger(float x, float y) {
    return x > y || (!VIT__IS_FIXED && vit__is_nan(x)) ? x : y;
}

/* --- messages -------------------------------------------------------------- */

/* Appends to a caller's buffer, e.g. detail[VIT_MAX_DETAIL], and truncates at its end. */
typedef struct vit__text {
    char *at, *end;
} vit__text;

static void vit__put(vit__text *text, const char *string) {
    if (!VIT__TEXTS) return;
    while (*string && text->at < text->end) *text->at++ = *string++;
    if (text->at) *text->at = 0;
}

/* Divides 16 bits at a time, from the highest: a 64-bit division would link 750 bytes of the
   compiler's library into firmware. */
static void vit__put_int(vit__text *text, uint64_t value) {
    char digits[21];
    int i = 20, k;
    digits[i] = 0;
    if (!VIT__TEXTS) return;
    do {
        uint32_t rest = 0;
        for (k = 0; k < 4; k++) {
            rest = rest << 16 | (uint32_t)(value >> 48);
            value = value << 16 | rest / 10;
            rest %= 10;
        }
        digits[--i] = (char)('0' + (int)rest);
    } while (value);
    vit__put(text, digits + i);
}

/* Begins a message, which is dropped if detail is NULL. */
static vit__text vit__say(char *detail, const char *first) {
    vit__text text;
    text.at = detail;
    text.end = detail ? detail + VIT_MAX_DETAIL - 1 : detail;
    vit__put(&text, first);
    return text;
}

static vit_result vit__fail(char *detail, vit_result result, const char *message) {
    vit__say(detail, message);
    return result;
}

/* "WHAT: expected A, found B" */
static vit_result vit__fail_int(char *detail, vit_result result, const char *what,
                                uint64_t expected, uint64_t found) {
    vit__text text = vit__say(detail, what);
    vit__put(&text, ": expected ");
    vit__put_int(&text, expected);
    vit__put(&text, ", found ");
    vit__put_int(&text, found);
    return result;
}

/* " f32 [576, 192]" */
static void vit__put_shape(vit__text *text, const vit_tensor *tensor) {
#define VIT_X(name, value, string) string,
    static const char *const dtypes[VIT_NUM_DTYPES] = { VIT_DTYPE_LIST(VIT_X) };
#undef VIT_X
    int i;
    vit__put(text, dtypes[tensor->dtype]);
    vit__put(text, " [");
    for (i = 0; i < tensor->ndim; i++) {
        if (i) vit__put(text, ", ");
        vit__put_int(text, (uint32_t)tensor->dims[i]);
    }
    vit__put(text, tensor->layout != VIT_LAYOUT_PLAIN ? "] in panels" : "]");
}

VIT_API const char *vit_result_string(vit_result result) {
    switch (result) {
#define VIT_X(name, value, text)                                               \
    case name: return text;
        VIT_RESULT_LIST(VIT_X)
#undef VIT_X
    }
    return "unknown result";
}

VIT_API const char *vit_phase_name(vit_phase phase) {
    switch (phase) {
#define VIT_X(name, value, text)                                               \
    case name: return text;
        VIT_PHASE_LIST(VIT_X)
#undef VIT_X
    case VIT_NUM_PHASES: break;
    }
    return "unknown phase";
}

/* --- checksum: XXH64 ------------------------------------------------------- */

static const uint64_t vit__primes[6] = {
    0,                     0x9E3779B185EBCA87ull, 0xC2B2AE3D27D4EB4Full,
    0x165667B19E3779F9ull, 0x85EBCA77C2B2AE63ull, 0x27D4EB2F165667C5ull
};

VIT__INLINE uint64_t vit__rotate(uint64_t x, int n) { return x << n | x >> (-n & 63); }

/* rotate(h, turn) * prime + prime. times and plus are indices into vit__primes, whose entry 0 is
   0. */
VIT__CALL uint64_t vit__hash_step(uint64_t h, int turn, int times, int plus) {
    return vit__rotate(h, turn) * vit__primes[times] + vit__primes[plus];
}

VIT__CALL uint64_t vit__hash_round(uint64_t lane, uint64_t word) {
    return vit__hash_step(lane + word * vit__primes[2], 31, 1, 0);
}

VIT_API void vit_hash_init(vit_hash *hash) {
    memset(hash, 0, sizeof *hash);
    hash->lane[0] = vit__primes[1] + vit__primes[2];
    hash->lane[1] = vit__primes[2];
    hash->lane[3] = 0u - vit__primes[1];
}

/* Four independent lanes; each takes every fourth 8-byte word. */
static void vit__hash_blocks(vit_hash *hash, const unsigned char *p, size_t num_blocks) {
    uint64_t a = hash->lane[0], b = hash->lane[1], c = hash->lane[2], d = hash->lane[3];
    int l;
    for (; VIT__SMALL && num_blocks; num_blocks--)
        for (l = 0; l < 4; l++, p += 8)
            hash->lane[l] = vit__hash_round(hash->lane[l], vit__u64(p));
    if (VIT__SMALL) return;
    for (; num_blocks; num_blocks--, p += 32) {
        a = vit__hash_round(a, vit__u64(p));
        b = vit__hash_round(b, vit__u64(p + 8));
        c = vit__hash_round(c, vit__u64(p + 16));
        d = vit__hash_round(d, vit__u64(p + 24));
    }
    hash->lane[0] = a;
    hash->lane[1] = b;
    hash->lane[2] = c;
    hash->lane[3] = d;
}

VIT_API void vit_hash_update(vit_hash *hash, const void *data, size_t size) {
    const unsigned char *p = (const unsigned char *)data;
    size_t kept = (size_t)(hash->total % 32), take;
    hash->total += size;
    if (kept) {
        take = size < 32 - kept ? size : 32 - kept;
        memcpy(hash->block + kept, p, take);
        if (kept + take < 32) return;
        vit__hash_blocks(hash, hash->block, 1);
        p += take;
        size -= take;
    }
    vit__hash_blocks(hash, p, size / 32);
    if (size % 32) memcpy(hash->block, p + size / 32 * 32, size % 32);
}

VIT_API uint64_t vit_hash_final(const vit_hash *hash) {
    static const unsigned char turns[4] = { 1, 7, 12, 18 };
    const unsigned char *p = hash->block;
    size_t left = (size_t)(hash->total % 32);
    uint64_t h = hash->total >= 32 ? 0 : vit__primes[5];
    int i;
    for (i = 0; i < 4 && hash->total >= 32; i++) h += vit__rotate(hash->lane[i], turns[i]);
    for (i = 0; i < 4 && hash->total >= 32; i++)
        h = vit__hash_step(h ^ vit__hash_round(0, hash->lane[i]), 0, 1, 4);
    h += hash->total;
    for (; left >= 8; left -= 8, p += 8)
        h = vit__hash_step(h ^ vit__hash_round(0, vit__u64(p)), 27, 1, 4);
    for (; left >= 4; left -= 4, p += 4)
        h = vit__hash_step(h ^ vit__u32(p) * vit__primes[1], 23, 2, 3);
    for (; left; left--, p++) h = vit__hash_step(h ^ *p * vit__primes[5], 11, 1, 0);
    h = vit__hash_step(h ^ h >> 33, 0, 2, 0);
    h = vit__hash_step(h ^ h >> 29, 0, 3, 0);
    return h ^ h >> 32;
}

/* --- half floats ------------------------------------------------------------ */

/* Exact: the subnormals of binary16 are normal in f32. */
static float vit__f16_to_f32(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) return vit__float(sign | 0x7f800000u | rest << 13);
    if (rest >= 0x0400u) return vit__float(sign | ((rest << 13) + 0x38000000u));
    return vit__float(vit__bits((float)rest * 5.9604644775390625e-8f /* 2^-24 */) | sign);
}

/* To nearest, ties to even; overflow gives infinity, NaN stays NaN. */
static uint16_t vit__f32_to_f16(float x) {
    const uint32_t bits = vit__bits(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    uint32_t half;
    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x1ffu));
    if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) { /* adding 0.5 rounds to the ten bits of a subnormal */
        half = vit__bits(vit__float(rest) + 0.5f) - 0x3f000000u;
        return (uint16_t)(sign | half);
    }
    half = rest - 0x38000000u;
    return (uint16_t)(sign | (half + 0x0fffu + (half >> 13 & 1u)) >> 13);
}

static uint16_t vit__f32_to_bf16(float x) {
    const uint32_t bits = vit__bits(x);
    if (vit__is_nan(x)) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

VIT__INLINE float vit__bf16_to_f32(uint16_t h) { return vit__float((uint32_t)h << 16); }

/* --- models that are not open ------------------------------------------------ */

/* The model is neither NULL nor closed, opening it succeeded, and its ABI is this one. */
static int vit__is_open(const vit_model *model) {
    return model && model->abi == VIT_ABI_OF_PROGRAM && model->tensors;
}

/* In builds for one model, only functions for sessions and photos check the model. */
VIT__INLINE int vit__is_checked(const vit_model *model) {
    return VIT__IS_FIXED || vit__is_open(model);
}

/* ------------------------------------------------------------------------- */
/* >>arch                                                                    */
/* ------------------------------------------------------------------------- */

/* One list describes a model, layer by layer. The loader checks a file against it, the converter
   writes in its order, and the forward pass finds weights by its names. Names and shapes are
   timm's. */

VIT__COLD_BEGIN

/* X(id, name, kind, dims, condition, bias) is a layer. Its tensors are consecutive in the file, and
   kind tells which they are:
     LINEAR  "<name>.weight" [dims] in panels, "<name>.bias" [first of dims]
     NORM    "<name>.weight" [dims], "<name>.bias" [dims]
     TENSOR  "<name>" [dims] alone
   A letter of dims has a meaning of its own in this list:
     D embed_dim   L vocab_size   A num_heads * head_dim   Q 3 * A   V 2 * A   H head_dim
     B input of attn.proj: A, or D where it is folded with v
     M mlp_dim   F width of fc1 T tokens with a position G num_reg_tokens
     C in_chans   J stem_width I channels of the map that patches are cut from, P side
     of a patch on it   R representation_dim   E width the head reads   K num_classes
     O width of the self-test's output   N num_patches   S head_dim / 2   Z num_heads
     W relative positions   U hidden width of map pooling   X m x m patches   Y merge_mlp_dim
     y width of the merger's norm   m merge_dim   1, 2, ... themselves
   The layer is present if every letter of condition holds; its bias must satisfy one more letter:
     + always   - never   V text encoder   u image encoder
     R ResNet stem   C convolutional stem
     c cls_token   d dist_token   g registers   p positions   b patch bias
     v norm of raw patches   n patch norm   e norm before the blocks
     l LayerNorm, whose norms have a bias   q qkv bias   k qk norm   a attn norm
     o proj bias   s layer scale   m mlp norm   f final norm   F fc norm   M map pooling
     r representation layer   h head   2 second head   t self-test   x rope   X rope of each block
     i relative positions   D differential attention   A attention to all tokens   y MLP
     w norm of the second branch   z any input size   j merger   J its norm

   To add a layer: a row here and, if it needs a new letter, a case in vit__dim or vit__holds. The
   forward pass then has it as a member of vit__block_layers or a similar struct. Models with the
   layer need a field of vit_config (VIT_FIELD_LIST), so that older readers refuse them.

   rope.cos and rope.sin hold the angle of each pair of elements of a head, for each patch. If the
   input size is variable, rope.rotations has a row for each member of a vit_rotation. attn.rel_pos
   holds biases for each head. First come those for every distance from a query patch to a key
   patch, (grid_height * 2 - 1) rows of (grid_width * 2 - 1), both from the most negative. Three
   more follow: from the class token to a patch, from a patch to the class token, and from the class
   token to itself. */
#define VIT__FRONT_LIST(X)                                                      \
    X(mean, "preprocess.mean", TENSOR, "C", "", '-')                           \
    X(std, "preprocess.std", TENSOR, "C", "", '-')                             \
    X(cls_token, "cls_token", TENSOR, "11D", "c", '-')                         \
    X(dist_token, "dist_token", TENSOR, "11D", "d", '-')                       \
    X(reg_token, "reg_token", TENSOR, "1GD", "g", '-')                         \
    X(token_embed, "token_embed", LINEAR, "LD", "V", '-')                      \
    X(pos_embed, "pos_embed", TENSOR, "1TD", "p", '-')                         \
    X(root, "patch_embed.backbone.stem.conv", LINEAR, "JC77", "R", '-')        \
    X(root_norm, "patch_embed.backbone.stem.norm", NORM, "J", "R", '+')        \
    X(conv0, "patch_embed.backbone.0.conv", LINEAR, "JC44", "C", '+')          \
    X(conv1, "patch_embed.backbone.1.conv", LINEAR, "JJ22", "C", '+')          \
    X(patch_pre_norm, "patch_embed.pre_norm", NORM, "IPP", "v", 'l')           \
    X(rope_cos, "rope.cos", TENSOR, "NS", "x", '-')                            \
    X(rope_sin, "rope.sin", TENSOR, "NS", "x", '-')                            \
    X(rotations, "rope.rotations", TENSOR, "9S", "xz", '-')                    \
    X(patch, "patch_embed.proj", LINEAR, "DIPP", "u", 'b')                     \
    X(patch_norm, "patch_embed.norm", NORM, "D", "n", 'l')                     \
    X(norm_pre, "norm_pre", NORM, "D", "e", 'l')

/* The stages of a ResNet stem, "patch_embed.backbone.stages.<stage>.blocks.<block>.". The converter
   has standardised their weights. i channels enter a block, o leave it, m are between. The first
   list is for block 0 only. */
#define VIT__DOWN_LIST(X)                                                      \
    X(conv, "downsample.conv", LINEAR, "oi11", "", '-')                        \
    X(norm, "downsample.norm", NORM, "o", "", '+')

#define VIT__UNIT_LIST(X)                                                      \
    X(conv1, "conv1", LINEAR, "mi11", "", '-')                                 \
    X(norm1, "norm1", NORM, "m", "", '+')                                      \
    X(conv2, "conv2", LINEAR, "mm33", "", '-')                                 \
    X(norm2, "norm2", NORM, "m", "", '+')                                      \
    X(conv3, "conv3", LINEAR, "om11", "", '-')                                 \
    X(norm3, "norm3", NORM, "o", "", '+')

#define VIT__BLOCK_LIST(X)                                                     \
    X(norm1, "norm1", NORM, "D", "", 'l')                                      \
    X(qkv, "attn.qkv", LINEAR, "QD", "A", 'q')                                 \
    X(q_norm, "attn.q_norm", NORM, "H", "k", 'l')                              \
    X(k_norm, "attn.k_norm", NORM, "H", "k", 'l')                              \
    X(rope_cos, "attn.rope.cos", TENSOR, "ZNS", "X", '-')                      \
    X(rope_sin, "attn.rope.sin", TENSOR, "ZNS", "X", '-')                      \
    X(rotations, "attn.rope.rotations", TENSOR, "Z9S", "Xz", '-')              \
    X(rel_pos, "attn.rel_pos", TENSOR, "ZW", "i", '-')                         \
    X(lambda, "attn.lambda", TENSOR, "1", "D", '-')                            \
    X(sub_norm, "attn.sub_norm", NORM, "H", "D", '-')                          \
    X(attn_norm, "attn.norm", NORM, "A", "a", 'l')                             \
    X(proj, "attn.proj", LINEAR, "DB", "", 'o')                                \
    X(ls1, "ls1.gamma", TENSOR, "D", "s", '-')                                 \
    X(norm2, "norm2", NORM, "D", "w", 'l')                                     \
    X(fc1, "mlp.fc1", LINEAR, "FD", "y", 'o')                                  \
    X(mlp_norm, "mlp.norm", NORM, "M", "m", 'l')                               \
    X(fc2, "mlp.fc2", LINEAR, "DM", "y", 'o')                                  \
    X(ls2, "ls2.gamma", TENSOR, "D", "sw", '-')

/* attn_pool.q is the latent after its linear layer: a constant. */
#define VIT__TAIL_LIST(X)                                                      \
    X(norm, "norm", NORM, "D", "f", 'l')                                       \
    X(pool_q, "attn_pool.q", TENSOR, "A", "M", '-')                            \
    X(pool_kv, "attn_pool.kv", LINEAR, "VD", "M", '+')                         \
    X(pool_proj, "attn_pool.proj", LINEAR, "DA", "M", '+')                     \
    X(pool_norm, "attn_pool.norm", NORM, "D", "M", 'l')                        \
    X(pool_fc1, "attn_pool.mlp.fc1", LINEAR, "UD", "M", '+')                   \
    X(pool_fc2, "attn_pool.mlp.fc2", LINEAR, "DU", "M", '+')                   \
    X(fc_norm, "fc_norm", NORM, "D", "F", 'l')                                 \
    X(pre_logits, "pre_logits.fc", LINEAR, "RD", "r", '+')                     \
    X(head, "head", LINEAR, "KE", "h", '+')                                    \
    X(head_dist, "head_dist", LINEAR, "KE", "2", '+')                          \
    X(merger_norm, "merger.norm", NORM, "y", "J", 'l')                         \
    X(merger_fc1, "merger.fc1", LINEAR, "YX", "j", '+')                        \
    X(merger_fc2, "merger.fc2", LINEAR, "mY", "j", '+')                        \
    X(selftest, "selftest.logits", TENSOR, "O", "t", '-')

typedef enum vit__kind { VIT__LINEAR, VIT__NORM, VIT__TENSOR } vit__kind;

typedef struct vit__spec {
    const char *name;
    char dims[5];
    unsigned char kind; /* vit__kind */
} vit__spec;

#define VIT_X(id, name, kind, dims, condition, bias) { VIT__TEXT(name), dims, VIT__##kind },
static const vit__spec vit__front_specs[] = { VIT__FRONT_LIST(VIT_X) };
static const vit__spec vit__down_specs[] = { VIT__DOWN_LIST(VIT_X) };
static const vit__spec vit__unit_specs[] = { VIT__UNIT_LIST(VIT_X) };
static const vit__spec vit__block_specs[] = { VIT__BLOCK_LIST(VIT_X) };
static const vit__spec vit__tail_specs[] = { VIT__TAIL_LIST(VIT_X) };
#undef VIT_X

/* A row of those lists in the forward pass: pointers to its tensors in the file. weight is NULL if
   the architecture lacks the layer. vit__stored reads the floats. */
typedef struct vit__layer { /* LINEAR: y [cols] = weight [cols, depth] x [depth] + bias     */
    const float *weight;    /* in panels                                                   */
    const float *bias;      /* [cols], or NULL                                             */
    vit_dtype dtype;        /* type of weight                                              */
    unsigned char fits16;   /* int8: 1 if section "fits16" lists the tensor                */
    int cols, depth;
} vit__layer;

typedef struct vit__affine { /* RMSNorm has no bias                                        */
    const float *weight, *bias;
} vit__affine;

typedef const float *vit__values; /* TENSOR                                                */

#define VIT__TYPE_LINEAR vit__layer
#define VIT__TYPE_NORM vit__affine
#define VIT__TYPE_TENSOR vit__values

/* Separate from vit__spec, so that the forward pass reads only this table. */
typedef struct vit__presence {
    char condition[3], bias;
    unsigned char size; /* size of its row in memory */
} vit__presence;

#define VIT_X(id, name, kind, dims, condition, bias)                           \
    { condition, bias, sizeof(VIT__TYPE_##kind) },
static const vit__presence vit__front_presence[] = { VIT__FRONT_LIST(VIT_X) };
static const vit__presence vit__down_presence[] = { VIT__DOWN_LIST(VIT_X) };
static const vit__presence vit__unit_presence[] = { VIT__UNIT_LIST(VIT_X) };
static const vit__presence vit__block_presence[] = { VIT__BLOCK_LIST(VIT_X) };
static const vit__presence vit__tail_presence[] = { VIT__TAIL_LIST(VIT_X) };
#undef VIT_X

#define VIT_X(id, name, kind, dims, condition, bias) +1
enum {
    VIT__NUM_FRONT = 0 VIT__FRONT_LIST(VIT_X),
    VIT__NUM_DOWN = 0 VIT__DOWN_LIST(VIT_X),
    VIT__NUM_UNIT = 0 VIT__UNIT_LIST(VIT_X),
    VIT__NUM_BLOCK = 0 VIT__BLOCK_LIST(VIT_X),
    VIT__NUM_TAIL = 0 VIT__TAIL_LIST(VIT_X)
};
#undef VIT_X

/* The first two tensors of every file are part of its configuration. */
enum { VIT__MEAN, VIT__STD };

enum { VIT__NUM_STAGES = 4 };

/* Blocks of a stage of the stem. The first stage without blocks ends the stem. */
static int vit__stage_depth(const vit_config *c, int stage) {
    switch (stage) {
    case 0: return c->stem_stage1;
    case 1: return c->stem_stage2;
    case 2: return c->stem_stage3;
    case 3: return c->stem_stage4;
    default: return 0;
    }
}

static int vit__num_stages(const vit_config *c) {
    int stage = 0;
    while (vit__stage_depth(c, stage)) stage++;
    return stage;
}

/* Channels of the map after a stage: 4 times stem_width for the first, doubled by each further
   stage. */
static int vit__stage_chans(const vit_config *c, int stage) {
    return stage < 0 ? c->stem_width : c->stem_width * 4 << stage;
}

/* Channels of the feature map that patches are cut from. */
static int vit__map_chans(const vit_config *c) {
    return c->stem ? vit__stage_chans(c, vit__num_stages(c) - 1) : c->in_chans;
}

/* Pixels of the input for each pixel of that map, along a side. */
static int vit__map_stride(const vit_config *c) {
    const int stages = vit__num_stages(c);
    if (c->stem == VIT_STEM_NONE) return 1;
    return c->stem == VIT_STEM_CONV ? 8 : stages < 2 ? 4 : 2 << stages;
}

/* A side of the feature map. ResNet pads its convolutions, so a remainder of the input counts
   too. */
static int vit__map_side(const vit_config *c, int pixels) {
    const int stride = vit__map_stride(c);
    if (c->stem == VIT_STEM_RESNET) return vit__ceil_div(pixels, stride);
    return pixels / stride;
}

/* A side of a patch on the feature map. */
static int vit__map_patch(const vit_config *c) { return c->patch_size / vit__map_stride(c); }

/* Width of the pooled vector. */
VIT__INLINE int vit__pooled_dim(const vit_config *c) {
    switch ((vit_pool)c->pool) {
    case VIT_POOL_TOKEN:
    case VIT_POOL_AVG:
    case VIT_POOL_MAX:
    case VIT_POOL_AVGMAX:
    case VIT_POOL_MAP:
    case VIT_POOL_LAST:
    case VIT_POOL_ARGMAX:
    case VIT_NUM_POOLS: break;
    case VIT_POOL_TOKEN_AVG: return 2 * c->embed_dim;
    }
    return c->embed_dim;
}

VIT__INLINE int vit__embedding_dim(const vit_config *c) {
    return c->representation_dim ? c->representation_dim : vit__pooled_dim(c);
}

VIT_API int vit_embedding_dim(const vit_model *model) {
    return vit__is_checked(model) ? vit__embedding_dim(VIT__CONFIG(model)) : 0;
}

/* 1 if the input is token ids. */
VIT__INLINE int vit__is_text(const vit_config *c) {
    return VIT__TEXT_ENCODER && c->vocab_size != 0;
}

static size_t vit__input_size(const vit_config *c) {
    return (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
}

VIT_API size_t vit_input_size(const vit_model *model) {
    return vit__is_checked(model) ? vit__input_size(VIT__CONFIG(model)) : 0;
}

/* Width of vit_selftest's output: the logits, or the embedding without a head. */
static int vit__output_dim(const vit_config *c) {
    return c->num_classes ? c->num_classes : vit__embedding_dim(c);
}

/* Width of fc1: twice the hidden layer in a gated MLP. */
static int vit__fc1_dim(const vit_config *c) {
    return c->has_gated_mlp ? 2 * c->mlp_dim : c->mlp_dim;
}

/* Hidden width of map pooling. */
static int vit__pool_hidden(const vit_config *c) {
    return c->pool_mlp_dim ? c->pool_mlp_dim : c->mlp_dim;
}

/* Width of the rows that attn.proj reads. */
VIT__INLINE int vit__context_dim(const vit_config *c) {
    return c->attention == VIT_ATTENTION_SELF ? c->embed_dim : c->num_heads * c->head_dim;
}

/* Patches of a merged token; 0 without a merger. */
VIT__INLINE int vit__merged_patches(const vit_config *c) {
    return VIT__LOGITS_ONLY ? 0 : c->merge_size * c->merge_size;
}

/* Relative-position biases per head. */
static int vit__num_rel_pos(const vit_config *c) {
    return (2 * c->grid_height - 1) * (2 * c->grid_width - 1) + 3;
}

static int vit__dim(const vit_config *c, char letter) {
    switch (letter) {
    case 'D': return c->embed_dim;
    case 'L': return c->vocab_size;
    case 'A': return c->num_heads * c->head_dim;
    case 'B': return vit__context_dim(c);
    case 'Q': return 3 * c->num_heads * c->head_dim;
    case 'V': return 2 * c->num_heads * c->head_dim;
    case 'H': return c->head_dim;
    case 'M': return c->mlp_dim;
    case 'U': return vit__pool_hidden(c);
    case 'F': return vit__fc1_dim(c);
    case 'T': return c->positions == VIT_POS_ALL ? c->num_tokens : c->num_patches;
    case 'G': return c->num_reg_tokens;
    case 'C': return c->in_chans;
    case 'J': return c->stem_width;
    case 'I': return vit__map_chans(c);
    case 'P': return vit__map_patch(c);
    case 'R': return c->representation_dim;
    case 'E': return vit__embedding_dim(c);
    case 'K': return c->num_classes;
    case 'O': return vit__output_dim(c);
    case 'N': return c->num_patches;
    case 'S': return c->head_dim / 2;
    case 'Z': return c->num_heads;
    case 'W': return vit__num_rel_pos(c);
    case 'X': return c->merge_size * c->merge_size * c->embed_dim;
    case 'Y': return c->merge_mlp_dim;
    case 'y': return vit__dim(c, c->merge_norm == 1 ? 'D' : 'X');
    case 'm': return c->merge_dim;
    default: return letter - '0';
    }
}

/* Length of a dimension of a layer in a stage of the stem. */
static int vit__unit_dim(const vit_config *c, int stage, int block, char letter) {
    const int chans = vit__stage_chans(c, stage);
    switch (letter) {
    case 'i': return block ? chans : vit__stage_chans(c, stage - 1);
    case 'm': return chans / 4;
    case 'o': return chans;
    default: return letter - '0';
    }
}

/* 1 if both branches of a block read the same norm of x. */
VIT__INLINE int vit__shares_norm(const vit_config *c) {
    switch ((vit_block_type)c->block_type) {
    case VIT_BLOCK_PRE_NORM:
    case VIT_BLOCK_POST_NORM:
    case VIT_BLOCK_RES_POST_NORM:
    case VIT_NUM_BLOCK_TYPES: break;
    case VIT_BLOCK_PARALLEL: return 1;
    }
    return 0;
}

static int vit__holds(const vit_config *c, char condition) {
    switch (condition) {
    case 'V': return vit__is_text(c);
    case 'u': return !vit__is_text(c);
    case 'R': return c->stem == VIT_STEM_RESNET;
    case 'C': return c->stem == VIT_STEM_CONV;
    case 'c': return c->has_cls_token;
    case 'd': return c->has_dist_token;
    case 'g': return c->num_reg_tokens != 0;
    case 'p': return c->positions != VIT_POS_NONE;
    case 'b': return c->has_patch_bias;
    case 'v': return c->has_patch_pre_norm;
    case 'n': return c->has_patch_norm;
    case 'e': return c->has_pre_norm;
    case 'l': return c->norm_type == VIT_LAYER_NORM;
    case 'q': return c->has_qkv_bias;
    case 'k': return c->has_qk_norm;
    case 'a': return c->has_attn_norm;
    case 'o': return c->has_proj_bias;
    case 's': return c->has_layer_scale;
    case 'm': return c->has_mlp_norm;
    case 'f': return c->has_final_norm;
    case 'F': return c->has_fc_norm;
    case 'M': return c->pool == VIT_POOL_MAP;
    case 'r': return c->representation_dim != 0;
    case 'h': return c->num_classes != 0;
    case '2': return c->num_classes != 0 && c->has_dist_token;
    case 'x': return c->rope != VIT_ROPE_NONE && !c->rope_per_block;
    case 'X': return c->rope != VIT_ROPE_NONE && c->rope_per_block;
    case 'i': return c->has_rel_pos;
    case 'D': return c->has_diff_attn;
    case 'A': return c->attention != VIT_ATTENTION_SELF;
    case 'y': return c->mlp_dim != 0;
    case 'w': return c->mlp_dim != 0 && !vit__shares_norm(c);
    case 't': return c->selftest_tolerance > 0;
    case 'z': return c->dynamic_img_size;
    case 'j': return c->merge_size != 0;
    case 'J': return c->merge_norm != 0;
    default: return condition == '+';
    }
}

static int vit__is_present(const vit_config *c, const char *condition) {
    while (*condition && vit__holds(c, *condition)) condition++;
    return *condition == 0;
}

/* Tensors that a row of a list has in this architecture: 0, 1 or 2. */
static int vit__num_tensors(const vit_config *c, const vit__presence *row) {
    if (!vit__is_present(c, row->condition)) return 0;
    return 1 + vit__holds(c, row->bias);
}

/* The number of tensors of the n rows of a list. */
static int vit__count(const vit_config *c, const vit__presence *rows, int n) {
    int count = 0;
    for (; n; n--, rows++) count += vit__num_tensors(c, rows);
    return count;
}

/* Depth of a linear layer's weight: the product of its dims except the first. */
static int vit__depth_of(const vit_tensor *t) {
    int i, depth = 1;
    for (i = 1; i < t->ndim; i++) depth *= t->dims[i];
    return depth;
}

/* Panels of 16-bit integers, laid out as bf16: keys and values of models in int8 and int4. */
#define VIT__I16 VIT_NUM_DTYPES

#define VIT__I4_GROUP (32 + 16 * 16) /* bytes of int4: 16 scales, 32 x 16 weights */

/* A constant in a build that has only f32. */
VIT__INLINE vit_dtype vit__known_dtype(vit_dtype dtype) {
    return VIT__DTYPES == 1u << VIT_F32 ? VIT_F32 : dtype;
}

/* The type of attention's products; a constant if the model has only one and the tier has
   VIT__I16. */
VIT__INLINE vit_dtype vit__known_product(vit_dtype dtype) {
    if (VIT__SIMD && !VIT__HELIUM) return dtype;
    if (VIT__IN_INTEGERS && !VIT__IN_FLOATS) return VIT__I16;
    return VIT__IN_INTEGERS || VIT__ATTENTION >> VIT_BF16 & 1u ? dtype : VIT_F32;
}

static uint64_t vit__panel_bytes(vit_dtype dtype, int depth) {
    const uint64_t k = (uint64_t)(unsigned)depth;
    switch (vit__known_dtype(dtype)) {
    case VIT_F16: return k * 16 * 2;
    case VIT_BF16:
    case VIT__I16: return (k + 1) / 2 * 2 * 16 * 2;
    case VIT_I8: return (k + 3) / 4 * 4 * 16 + 16 * 4 + 16 * 4;
    case VIT_I4: return (k + 31) / 32 * VIT__I4_GROUP + 16 * 4;
    case VIT_F32: return k * 16 * 4;
    }
    return 0;
}

static uint64_t vit__tensor_bytes(const vit_tensor *t) {
    const uint64_t panels = (uint64_t)(unsigned)vit__ceil_div(t->dims[0], 16);
    if (t->layout != VIT_LAYOUT_PLAIN)
        return panels * vit__panel_bytes(t->dtype, vit__depth_of(t));
    return (uint64_t)(unsigned)t->dims[0] * (uint64_t)(unsigned)vit__depth_of(t) * 4;
}

/* 1 if a layer of this depth can have the type. Inputs of int8 and int4, header included, must fit
   in the floats they replace, and sums of int8 have 32 bits. */
static int vit__fits_depth(vit_dtype dtype, int depth) {
    if (dtype == VIT_I8) return depth >= 4 && depth <= 65536;
    return dtype != VIT_I4 || depth >= 16;
}

/* The place of a tensor: a block of a stem's stage, a transformer block (stage -1), or neither
   (both -1). */
typedef struct vit__address {
    int stage, block;
    const vit__spec *spec;
    int is_bias;
} vit__address;

/* The row of a list that has tensor number `index`, which must be in range. */
static void vit__find_row(const vit_config *c, const vit__spec *specs, const vit__presence *rows,
                          int index, vit__address *address) {
    int row = 0, n;
    for (; index >= (n = vit__num_tensors(c, &rows[row])); row++) index -= n;
    address->spec = &specs[row];
    address->is_bias = index;
}

static void vit__put_address(vit__text *text, const vit__address *address) {
    if (address->stage >= 0) {
        vit__put(text, "patch_embed.backbone.stages.");
        vit__put_int(text, (uint64_t)(unsigned)address->stage);
        vit__put(text, ".");
    }
    if (address->block < 0) return;
    vit__put(text, "blocks.");
    vit__put_int(text, (uint64_t)(unsigned)address->block);
    vit__put(text, ".");
}

static void vit__describe(const vit_config *c, const vit__address *address, vit_dtype dtype,
                          vit_tensor *t) {
    const vit__spec *spec = address->spec;
    const int is_panels = spec->kind == VIT__LINEAR && !address->is_bias;
    const int ndim = spec->kind == VIT__LINEAR && address->is_bias ? 1 : 4;
    vit__text text;
    memset(t, 0, sizeof *t);
    text.at = t->name;
    text.end = t->name + sizeof t->name - 1;
    vit__put_address(&text, address);
    vit__put(&text, spec->name);
    if (spec->kind != VIT__TENSOR) vit__put(&text, address->is_bias ? ".bias" : ".weight");
    for (t->ndim = 0; t->ndim < ndim && spec->dims[t->ndim]; t->ndim++) {
        const char letter = spec->dims[t->ndim];
        t->dims[t->ndim] = address->stage < 0
                               ? vit__dim(c, letter)
                               : vit__unit_dim(c, address->stage, address->block, letter);
    }
    t->dtype = is_panels && vit__fits_depth(dtype, vit__depth_of(t)) ? dtype : VIT_F32;
    if (is_panels) t->layout = t->dtype == VIT_I4 ? VIT_LAYOUT_GROUPS : VIT_LAYOUT_PANELS;
    t->size = vit__tensor_bytes(t);
}

/* Tensors of the stem's stages in front of this block of this stage. */
static int vit__unit_start(const vit_config *c, int stage, int block) {
    int down, unit, start;
    if (!c->stem_stage1) return 0;
    down = vit__count(c, vit__down_presence, VIT__NUM_DOWN);
    unit = vit__count(c, vit__unit_presence, VIT__NUM_UNIT);
    start = block ? down + unit * block : 0;
    while (stage-- > 0)
        if (vit__stage_depth(c, stage)) start += down + unit * vit__stage_depth(c, stage);
    return start;
}

static void vit__find_unit(const vit_config *c, int index, vit__address *address) {
    const int down = vit__count(c, vit__down_presence, VIT__NUM_DOWN);
    int stage = 0, block = 0;
    while (index >= vit__unit_start(c, stage + 1, 0)) stage++;
    while (index >= vit__unit_start(c, stage, block + 1)) block++;
    address->stage = stage;
    address->block = block;
    index -= vit__unit_start(c, stage, block);
    if (block == 0 && index < down)
        vit__find_row(c, vit__down_specs, vit__down_presence, index, address);
    else
        vit__find_row(c, vit__unit_specs, vit__unit_presence, block ? index : index - down,
                      address);
}

VIT_API int vit_architecture_tensor(const vit_config *config, vit_dtype dtype, int index,
                                    vit_tensor *tensor) {
    const int stem = vit__count(config, vit__front_presence, VIT__NUM_FRONT);
    const int units = vit__unit_start(config, VIT__NUM_STAGES, 0);
    const int block = vit__count(config, vit__block_presence, VIT__NUM_BLOCK);
    const int tail = vit__count(config, vit__tail_presence, VIT__NUM_TAIL);
    vit__address address = { -1, -1, NULL, 0 };
    if (index < 0 || index >= stem + units + block * config->depth + tail) return 0;
    if (index < stem) {
        vit__find_row(config, vit__front_specs, vit__front_presence, index, &address);
    } else if ((index -= stem) < units) {
        vit__find_unit(config, index, &address);
    } else if ((index -= units) < block * config->depth) {
        address.block = index / block;
        vit__find_row(config, vit__block_specs, vit__block_presence, index % block, &address);
    } else {
        index -= block * config->depth;
        vit__find_row(config, vit__tail_specs, vit__tail_presence, index, &address);
    }
    vit__describe(config, &address, dtype, tensor);
    return 1;
}

/* --- configuration ---------------------------------------------------------- */

enum {
#define VIT_X(type, name, required, smallest, largest) VIT__FIELD_##name,
    VIT_FIELD_LIST(VIT_X)
#undef VIT_X
    VIT__NUM_FIELDS
};

typedef struct vit__field {
    char name[24]; /* zero-padded, as in the file */
    float smallest, largest;
    unsigned short offset; /* in vit_config */
    unsigned char is_float, required;
} vit__field;

#define VIT__IS_FLOAT_int 0
#define VIT__IS_FLOAT_float 1
#define VIT_X(type, name, required, smallest, largest)                         \
    { #name, (float)(smallest), (float)(largest), offsetof(vit_config, name),                    \
      VIT__IS_FLOAT_##type, required },
static const vit__field vit__fields[VIT__NUM_FIELDS] = { VIT_FIELD_LIST(VIT_X) };
#undef VIT_X

static vit_result vit__out_of_range(char *detail, const char *name) {
    vit__text text = vit__say(detail, name);
    vit__put(&text, " is out of range");
    return VIT_ERROR_CORRUPT;
}

/* Checks that every stored field is within the bounds of VIT_FIELD_LIST. */
static vit_result vit__check_ranges(const vit_config *c, char *detail) {
    int i;
    for (i = 0; i < VIT__NUM_FIELDS; i++) {
        const vit__field *field = &vit__fields[i];
        const void *at = (const char *)c + field->offset;
        float value;
        int32_t integer;
        memcpy(&value, at, 4);
        memcpy(&integer, at, 4);
        if (!field->is_float) value = (float)integer;
        if (!(value >= field->smallest && value <= field->largest))
            return vit__out_of_range(detail, field->name);
    }
    return VIT_OK;
}

/* Values of a patch, as input of the patch embedding. */
static int64_t vit__patch_depth(const vit_config *c) {
    return (int64_t)vit__map_chans(c) * vit__map_patch(c) * vit__map_patch(c);
}

static int64_t vit__map_elements(const vit_config *c, int stride, int chans) {
    return (int64_t)vit__ceil_div(c->img_height, stride) * vit__ceil_div(c->img_width, stride) *
           chans;
}

/* Values of the largest map in the stem: the first, or that of a stage. 0 without a stem. */
static int64_t vit__largest_map(const vit_config *c) {
    const int stride = c->stem == VIT_STEM_CONV ? 4 : 2;
    int64_t largest = vit__map_elements(c, stride, c->stem_width);
    int stage;
    for (stage = 0; vit__stage_depth(c, stage); stage++) {
        const int64_t n = vit__map_elements(c, 4 << stage, vit__stage_chans(c, stage));
        largest = n > largest ? n : largest;
    }
    return largest;
}

/* Values per token of the widest activation. */
static int64_t vit__largest_row(const vit_config *c) {
    int64_t largest = vit__patch_depth(c);
    if (largest < c->embed_dim) largest = c->embed_dim;
    if (largest < (int64_t)3 * c->num_heads * c->head_dim)
        largest = (int64_t)3 * c->num_heads * c->head_dim;
    if (largest < vit__pool_hidden(c)) largest = vit__pool_hidden(c);
    if (vit__merged_patches(c))
        largest = vit__max(vit__max(vit__dim(c, 'X'), c->merge_mlp_dim), (int)largest);
    return largest < vit__fc1_dim(c) ? vit__fc1_dim(c) : largest;
}

static int vit__pool_heads(const vit_config *c) {
    const int own = c->pool_num_heads;
    return own ? own : c->num_heads;
}

/* Rejects invalid combinations of attention's options. */
static vit_result vit__check_attention(const vit_config *c, char *detail) {
    if ((c->rope || c->has_diff_attn) && c->head_dim % 2)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "rope and has_diff_attn need an even head_dim");
    if (c->rope_per_block && !c->rope)
        return vit__fail(detail, VIT_ERROR_CORRUPT, "rope_per_block needs rope");
    if (c->has_rel_pos && c->num_prefix_tokens != c->has_cls_token)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "has_rel_pos allows no prefix token but the class token");
    if (c->has_rel_pos && c->dynamic_img_size && c->pos_resample > VIT_RESAMPLE_TRANSFORMERS)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "has_rel_pos with dynamic_img_size needs pos_resample 0 or 1");
    if (c->has_diff_attn && (c->rope || c->has_rel_pos ||
                                       c->has_qk_norm || c->has_attn_norm))
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED, "has_diff_attn excludes rope, "
                         "has_rel_pos, has_qk_norm and has_attn_norm");
    if (c->pool_mlp_dim && c->pool != VIT_POOL_MAP)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED, "pool_mlp_dim needs map pooling");
    if ((c->pool_num_heads && c->pool != VIT_POOL_MAP) ||
        c->num_heads * c->head_dim % vit__pool_heads(c))
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "pool_num_heads needs map pooling and must divide num_heads * head_dim");
    return VIT_OK;
}

/* Rejects options that are invalid without an MLP or without attention. */
static vit_result vit__check_blocks(const vit_config *c, char *detail) {
    const int m = c->merge_size;
    if (!c->mlp_dim && (c->has_gated_mlp || c->has_mlp_norm || vit__shares_norm(c)))
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "mlp_dim 0 excludes has_gated_mlp, has_mlp_norm and parallel blocks");
    if (c->pool == VIT_POOL_MAP && !vit__pool_hidden(c))
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "map pooling needs pool_mlp_dim or mlp_dim");
    if (c->attention == VIT_ATTENTION_SELF &&
        (c->has_qkv_bias || c->has_qk_norm || c->rope || c->has_rel_pos || c->has_diff_attn ||
         c->has_attn_norm))
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "attention 1, to itself alone, excludes has_qkv_bias, has_qk_norm, rope, "
                         "has_rel_pos, has_diff_attn and has_attn_norm");
    if (c->attention == VIT_ATTENTION_CAUSAL && c->has_rel_pos)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "attention 2, causal, excludes has_rel_pos");
    if (c->representation_act && !c->representation_dim)
        return vit__fail(detail, VIT_ERROR_CORRUPT, "representation_act needs representation_dim");
    if (!m != !c->merge_dim || !m != !c->merge_mlp_dim || (!m && (c->merge_norm || c->merge_act)))
        return vit__fail(detail, VIT_ERROR_CORRUPT, "merge_size, merge_dim and merge_mlp_dim need "
                         "each other, merge_norm and merge_act need all three");
    if (c->head_activation && !c->num_classes && !c->vocab_size)
        return vit__fail(detail, VIT_ERROR_CORRUPT, "head_activation needs num_classes");
    return VIT_OK;
}

/* Checks the fields of a text encoder. Its tokens are a row of patches of one pixel. */
static vit_result vit__check_text(const vit_config *c, char *detail) {
    if (!c->vocab_size && (c->pool >= VIT_POOL_LAST || c->logit_scale != 0.0f))
        return vit__fail(detail, VIT_ERROR_CORRUPT, "pool 6 and 7 and logit_scale need vocab_size");
    if (!c->vocab_size) return VIT_OK;
    if (!VIT__TEXT_ENCODER)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "a text encoder needs a build with VIT_TEXT_ENCODER");
    if (c->in_chans != 1 || c->img_height != 1 || c->patch_size != 1 || c->patch_stride ||
        c->stem || c->patch_cut || c->dynamic_img_size || c->dynamic_img_pad ||
        c->has_patch_bias || c->has_patch_norm || c->has_patch_pre_norm || c->has_rel_pos ||
        c->rope || c->merge_size)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "vocab_size excludes the options of patches, stems and sizes, rope, "
                         "merge_size and has_rel_pos; in_chans, img_height and patch_size "
                         "must be 1");
    return VIT_OK;
}

/* Checks patches that are not squares, or not side by side. */
static vit_result vit__check_cut(const vit_config *c, char *detail) {
    if (c->crop_mode == VIT_CROP_ASPECT &&
        (!c->dynamic_img_size || c->patch_stride || c->stem || c->dynamic_img_pad))
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "crop_mode 3 needs dynamic_img_size and excludes patch_stride, stem and "
                         "dynamic_img_pad");
    if (c->patch_stride && (c->patch_cut || c->stem || c->dynamic_img_pad))
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "patch_stride excludes patch_cut, stem and dynamic_img_pad");
    if (c->patch_cut == VIT_CUT_SQUARES) return VIT_OK;
    if (c->stem || c->dynamic_img_size || c->dynamic_img_pad)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "patch_cut excludes stem, dynamic_img_size and dynamic_img_pad");
    if (c->img_height % c->patch_size || c->img_width % c->patch_size)
        return vit__fail(detail, VIT_ERROR_CORRUPT,
                         "patch_cut needs img_height and img_width of whole patches");
    return VIT_OK;
}

/* Checks the fields of the stem against each other. */
static vit_result vit__check_stem(const vit_config *c, char *detail) {
    const int stages = vit__num_stages(c);
    int stage;
    if (!c->stem != !c->stem_width)
        return vit__fail(detail, VIT_ERROR_CORRUPT, "stem and stem_width need each other");
    if (stages && c->stem != VIT_STEM_RESNET)
        return vit__fail(detail, VIT_ERROR_CORRUPT, "stem_stage1 needs a ResNet stem");
    for (stage = stages; stage < VIT__NUM_STAGES; stage++)
        if (vit__stage_depth(c, stage))
            return vit__fail(detail, VIT_ERROR_CORRUPT, "a stage of the stem is left out");
    if (c->stem == VIT_STEM_RESNET && c->stem_width % 32 != 0)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED, "stem_width is not a multiple of 32");
    if (c->patch_size % vit__map_stride(c) != 0)
        return vit__fail_int(detail, VIT_ERROR_CORRUPT,
                             "patch_size must be a multiple of the stem's stride",
                             (unsigned)vit__map_stride(c), (unsigned)c->patch_size);
    if (c->stem && (c->has_patch_pre_norm || c->dynamic_img_pad))
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "stem excludes has_patch_pre_norm and dynamic_img_pad");
    if (vit__largest_map(c) > 0x7fffffff)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED, "a feature map has 2^31 numbers or more");
    return VIT_OK;
}

/* Patches along a side of the input. */
static int vit__grid_side(const vit_config *c, int side) {
    const int map = vit__map_side(c, side), patch = vit__map_patch(c);
    if (c->patch_stride) return map < patch ? 0 : (map - patch) / c->patch_stride + 1;
    return c->dynamic_img_pad ? vit__ceil_div(map, patch) : map / patch;
}

/* Sets the derived fields, and checks sizes that depend on several fields. */
static vit_result vit__check_sizes(vit_config *c, char *detail) {
    c->grid_height = vit__grid_side(c, c->img_height);
    c->grid_width = vit__grid_side(c, c->img_width);
    c->num_patches = c->grid_height * c->grid_width;
    c->num_prefix_tokens = c->has_cls_token + c->has_dist_token + c->num_reg_tokens;
    c->num_tokens = c->num_prefix_tokens + c->num_patches;
    if (c->num_patches == 0)
        return vit__fail(detail, VIT_ERROR_CORRUPT, "patch_size is larger than the image");
    if (c->merge_size && (c->grid_height % c->merge_size || c->grid_width % c->merge_size))
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "merge_size does not divide grid_height and grid_width");
    if (c->num_tokens > 65536)
        return vit__fail_int(detail, VIT_ERROR_UNSUPPORTED, "num_tokens, at most", 65536,
                             (unsigned)c->num_tokens);
    if (c->num_heads * c->head_dim > 65536)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED, "num_heads * head_dim is above 65536");
    if ((int64_t)c->in_chans * c->img_height * c->img_width >= 1 << 30)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED, "the input has 2^30 numbers or more");
    if (vit__patch_depth(c) > 1 << 24)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED, "a patch has more than 2^24 numbers");
    if ((int64_t)c->num_tokens * vit__largest_row(c) > 0x7fffffff)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED, "an activation has 2^31 numbers or more");
    return VIT_OK;
}

VIT_API vit_result vit_config_check(vit_config *config, char detail[VIT_MAX_DETAIL]) {
    vit_config *c = config;
    vit_result result;
    int i;
    if (!c) return vit__fail(detail, VIT_ERROR_ARGUMENT, "config is NULL");
    result = vit__check_ranges(c, detail);
    if (!result) result = vit__check_stem(c, detail);
    if (!result) result = vit__check_cut(c, detail);
    if (!result) result = vit__check_blocks(c, detail);
    if (!result) result = vit__check_text(c, detail);
    if (!result) result = vit__check_sizes(c, detail);
    if (result) return result;
    if (c->has_dist_token && c->representation_dim)
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "has_dist_token and representation_dim exclude each other");
    if (c->has_dist_token && (!c->has_cls_token || c->pool != VIT_POOL_TOKEN))
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "has_dist_token needs has_cls_token and pooling by token");
    if (c->pool == VIT_POOL_TOKEN_AVG && (c->representation_dim || c->has_fc_norm))
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "token and average together exclude representation_dim and has_fc_norm");
    if (c->block_type != VIT_BLOCK_PRE_NORM && (c->has_attn_norm || c->has_mlp_norm))
        return vit__fail(detail, VIT_ERROR_UNSUPPORTED,
                         "has_attn_norm and has_mlp_norm need block_type 0, pre-norm");
    for (i = 0; i < c->in_chans; i++)
        if (!(c->mean[i] >= -65536.0f && c->mean[i] <= 65536.0f) || !vit__is_finite(c->std[i]) ||
            !(c->std[i] > 0.0f))
            return vit__fail(detail, VIT_ERROR_CORRUPT,
                             "a mean is beyond 65536, or a std not finite or not above 0");
    return vit__check_attention(c, detail);
}

VIT__COLD_END

VIT__COMPACT_BEGIN

/* --- packing ---------------------------------------------------------------- */

/* Index of weight [row, k] in its panel, in elements. A load of 16 columns fills each lane with the
   operands of one multiplication: one f32, two bf16 (vdpbf16ps, bfmlal) or four int8 (vpdpbusd,
   sdot):
      f32, f16   k:       columns 0 1 2 ... 15
      bf16       k / 2:   0a 0b 1a 1b ... 15a 15b       a, b: k even, odd
      int8       k / 4:   0a 0b 0c 0d 1a ... 15d        a to d: k modulo 4 */
VIT__INLINE size_t vit__panel_index(vit_dtype dtype, int row, int k) {
    const size_t column = (size_t)row % 16, i = (size_t)k;
    if (dtype == VIT_BF16 || dtype == VIT__I16) return i / 2 * 32 + column * 2 + i % 2;
    if (dtype == VIT_I8) return i / 4 * 64 + column * 4 + i % 4;
    return i * 16 + column;
}

VIT__INLINE int vit__clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

#define VIT__ROUND 12582912.0f /* 1.5 * 2^23: adding it to a small number leaves the
                                  rounded integer in the low bits */

/* Round half to even, |x| < 2^22. */
VIT__INLINE int vit__round_int(float x) {
    return (int)(int32_t)(vit__bits(x + VIT__ROUND) - vit__bits(VIT__ROUND));
}

/* Position of weight k of a row in a group of int4: its byte, and the shift within it. */
VIT__INLINE int vit__i4_byte(int row, int k) { return 32 + k % 16 / 4 * 64 + row * 4 + k % 4; }
VIT__INLINE int vit__i4_shift(int k) { return k % 32 / 16 * 4; }

static float vit__i4_to_f32(const unsigned char *panel, int row, int k) {
    const unsigned char *group = panel + (size_t)(k / 32) * VIT__I4_GROUP;
    const int q = group[vit__i4_byte(row % 16, k)] >> vit__i4_shift(k) & 15;
    uint16_t scale;
    memcpy(&scale, group + 2 * (row % 16), 2);
    return (float)(q - 8) * vit__f16_to_f32(vit__le16(scale));
}

/* The k of weight i, from 0 to 3, in a lane of section "fits16". */
VIT__INLINE int vit__lane_k(int lane, int i) {
    return lane / 2 * 8 + lane % 2 * 2 + i / 2 * 4 + i % 2;
}

/* The larger of two sums: of a lane's positive weights, and of the magnitudes of its negative ones.
   w may end within the lane. */
VIT__INLINE float vit__lane_sum(const float *w, int depth, int lane) {
    float above = 0.0f, below = 0.0f;
    int i;
    for (i = 0; i < 4 && vit__lane_k(lane, i) < depth; i++) {
        const float x = w[vit__lane_k(lane, i)];
        if (x > 0.0f) above += x;
        else below -= x;
    }
    return above > below ? above : below;
}

/* The scale of a row of int8. If every weight is a multiple of the step that makes the largest lane
   sum 127, calibration has rounded the row, which keeps that step. In all other rows the largest
   absolute value becomes 127. */
static float vit__scale_i8(const float *w, int depth) {
    const int lanes = vit__ceil_div(depth, 8) * 2;
    float sum = 0.0f, largest = 0.0f, step;
    int i, k;
    for (i = 0; i < lanes; i++)
        sum = vit__lane_sum(w, depth, i) > sum ? vit__lane_sum(w, depth, i) : sum;
    step = sum / 127.0f;
    for (k = 0; k < depth; k++) {
        const float size = w[k] < 0.0f ? -w[k] : w[k], steps = size / step;
        const float off = steps - (float)vit__round_int(steps);
        if (!(off < 1e-3f && off > -1e-3f)) sum = 0.0f;
        largest = vit__larger(size, largest);
    }
    return sum > 0.0f && vit__is_finite(sum) ? step : largest / 127.0f;
}

static void vit__pack_i8(const float *from, int row, int depth, unsigned char *panel) {
    unsigned char *tail = panel + (size_t)vit__ceil_div(depth, 4) * 64 + (size_t)row * 4;
    const float scale = vit__scale_i8(from, depth);
    int8_t *to = (int8_t *)panel;
    int32_t sum = 0;
    int k;
    for (k = 0; k < depth; k++) {
        const int q = scale > 0.0f ? vit__clamp(vit__round_int(from[k] / scale), -127, 127) : 0;
        to[vit__panel_index(VIT_I8, row, k)] = (int8_t)q;
        sum += q;
    }
    vit__copy_stored(tail, &scale, 1);
    vit__copy_stored(tail + 64, &sum, 1);
}

/* The binary16 bits of a scale of int4. */
static uint16_t vit__half_scale(float scale) {
    const uint16_t half = vit__f32_to_f16(scale);
    return (half & 0x7fffu) > 0x7bffu ? (uint16_t)((half & 0x8000u) | 0x7bffu) : half; /* 65504 */
}

/* 1 if all weights are multiples of this scale of int4. */
static int vit__are_steps(const float *w, int count, float scale) {
    int k = 0;
    for (; k < count && vit__bits(scale) << 1; k++) {
        const float q = w[k] / scale;
        if (!(q > -8.5f && q < 7.5f)) break;
        if (vit__bits((float)vit__round_int(q) * scale - w[k]) << 1) break;
    }
    return k == count;
}

/* The scale of a group. Weights that calibration has rounded keep their scale. Otherwise `extreme`,
   the largest in absolute value, becomes -8. */
static uint16_t vit__scale_i4(const float *w, int count, float extreme) {
    int q;
    for (q = -8; q < 8; q++) {
        const uint16_t half = vit__half_scale(q ? extreme / (float)q : 0.0f);
        if (vit__are_steps(w, count, vit__f16_to_f32(half))) return half;
    }
    return vit__half_scale(extreme / -8.0f);
}

/* Up to 32 weights of a row as int4. Returns their sum. */
static float vit__pack_group(const float *from, int row, int count, unsigned char *group) {
    float extreme = 0.0f, scale;
    uint16_t half;
    int k, sum = 0;
    for (k = 0; k < count; k++) {
        const float size = from[k] < 0.0f ? -from[k] : from[k];
        if (size > (extreme < 0.0f ? -extreme : extreme) || vit__is_nan(size)) extreme = from[k];
    }
    half = vit__is_finite(extreme) ? vit__scale_i4(from, count, extreme) : 0x7e00u; /* NaN */
    scale = vit__f16_to_f32(half);
    half = vit__le16(half);
    memcpy(group + 2 * row, &half, 2);
    for (k = 0; k < count; k++) {
        const float q = vit__bits(scale) << 1 ? from[k] / scale : 0.0f;
        const int code = q >= 7.0f ? 15 : q > -8.0f ? vit__round_int(q) + 8 : 0; /* NaN: 0 */
        unsigned char *byte = group + vit__i4_byte(row, k);
        *byte = (unsigned char)((*byte & (0xf0 >> vit__i4_shift(k))) | code << vit__i4_shift(k));
        sum += code - 8;
    }
    return (float)sum * scale; /* exact: a sum up to 256 has 9 bits, an f16 has 11 */
}

static void vit__pack_i4(const float *from, int row, int depth, unsigned char *panel) {
    float sum = 0.0f;
    int k;
    for (k = 0; k < depth; k += 32, panel += VIT__I4_GROUP)
        sum += vit__pack_group(from + k, row, vit__min(32, depth - k), panel);
    vit__copy_stored(panel + 4 * row, &sum, 1);
}

VIT_API size_t vit_pack_panel(vit_dtype dtype, const float *rows, int num_rows, int depth,
                              void *panel) {
    const size_t bytes = (size_t)vit__panel_bytes(dtype, depth);
    unsigned char *to = (unsigned char *)panel;
    int row, k;
    if (!panel) return bytes;
    memset(panel, 0, bytes);
    if (dtype == VIT_I4) /* 8 stands for zero */
        for (k = 0; k < depth; k += 32)
            memset(to + (size_t)(k / 32) * VIT__I4_GROUP + 32, 0x88, VIT__I4_GROUP - 32);
    for (row = 0; row < num_rows; row++) {
        const float *from = rows + (size_t)row * (size_t)depth;
        if (dtype == VIT_I8) vit__pack_i8(from, row, depth, to);
        if (dtype == VIT_I4) vit__pack_i4(from, row, depth, to);
        for (k = 0; k < depth; k++) {
            const size_t i = vit__panel_index(dtype, row, k);
            if (dtype == VIT_F32) vit__copy_stored(to + 4 * i, from + k, 1);
            if (dtype == VIT_F16) ((uint16_t *)panel)[i] = vit__le16(vit__f32_to_f16(from[k]));
            if (dtype == VIT_BF16) ((uint16_t *)panel)[i] = vit__le16(vit__f32_to_bf16(from[k]));
        }
    }
    return bytes;
}

/* Weight [row, k] of the panel that holds it, except in int8 and int4. */
VIT__INLINE float vit__weight(vit_dtype dtype, const unsigned char *panel, int row, int k) {
    const size_t i = vit__panel_index(dtype, row, k);
    uint16_t half;
    if (dtype == VIT_F32) return vit__panel_float(panel + 4 * i);
    memcpy(&half, panel + 2 * i, 2);
    half = vit__le16(half);
    return dtype == VIT_F16 ? vit__f16_to_f32(half) : vit__bf16_to_f32(half);
}

static float vit__unpack_number(vit_dtype dtype, const unsigned char *panel, int row, int k,
                                int depth) {
    const unsigned char *scales = panel + (size_t)vit__ceil_div(depth, 4) * 64;
    if (dtype == VIT_I4) return vit__i4_to_f32(panel, row, k);
    if (dtype != VIT_I8) return vit__weight(dtype, panel, row, k);
    return (float)((const int8_t *)panel)[vit__panel_index(VIT_I8, row, k)] *
           vit__panel_float(scales + (size_t)row % 16 * 4);
}

/* The sums of bytes 0 and 1, and of bytes 2 and 3. */
VIT__INLINE uint32_t vit__byte_pairs(uint32_t x) {
    return (x & 0x00ff00ffu) + (x >> 8 & 0x00ff00ffu);
}

/* Of four weights, the sums of the positive ones, and of the magnitudes of the negative ones. */
VIT__INLINE uint32_t vit__pairs_above(uint32_t q) {
    const uint32_t sign = q >> 7 & 0x01010101u;
    return vit__byte_pairs(q & ~((sign << 8) - sign));
}
VIT__INLINE uint32_t vit__pairs_below(uint32_t q) {
    const uint32_t sign = q >> 7 & 0x01010101u;
    return vit__byte_pairs((~q & ((sign << 8) - sign)) + sign);
}

/* Takes two quads of each row at a time, which are two lanes; the last quad may be alone. Each
   16-bit half holds the sum of a lane, at most 4 * 128. Adding 0x7f80 sets its bit 15 for sums from
   128 on, without a carry into the other half. */
VIT_API int vit_fits16(const void *panel, int depth) {
    const unsigned char *p = (const unsigned char *)panel;
    int quads = vit__ceil_div(depth, 4), i;
    uint32_t over = 0;
    for (; quads > 0 && !(over & 0x80008000u); quads -= 2, p += 128) {
        const unsigned char *const next = quads > 1 ? p + 64 : p;
        const uint32_t has_next = quads > 1 ? ~0u : 0;
        for (i = 0; i < 64; i += 4) {
            uint32_t a, b;
            memcpy(&a, p + i, 4);
            memcpy(&b, next + i, 4);
            b &= has_next;
            over |= vit__pairs_above(a) + vit__pairs_above(b) + 0x7f807f80u;
            over |= vit__pairs_below(a) + vit__pairs_below(b) + 0x7f807f80u;
        }
    }
    return !(over & 0x80008000u);
}

VIT_API void vit_unpack_row(const vit_tensor *tensor, int row, float *out) {
    const unsigned char *data = (const unsigned char *)tensor->data;
    const int depth = vit__depth_of(tensor);
    int k;
    if (tensor->layout == VIT_LAYOUT_PLAIN) {
        vit__copy_stored(out, data + (size_t)row * (size_t)depth * 4, (size_t)depth);
        return;
    }
    data += (size_t)(row / 16) * (size_t)vit__panel_bytes(tensor->dtype, depth);
    for (k = 0; k < depth; k++) out[k] = vit__unpack_number(tensor->dtype, data, row, k, depth);
}

VIT__COMPACT_END

VIT__COLD_BEGIN

/* ------------------------------------------------------------------------- */
/* >>load                                                                    */
/* ------------------------------------------------------------------------- */

/* A file is hostile until proven otherwise. The loader checks everything that later code relies
   on, once, in the order of the format. It stops at the first contradiction, which model->detail
   describes. */

typedef struct vit__section {
    const unsigned char *at;
    uint64_t offset, size;
    uint32_t count;
} vit__section;

/* The sections this reader knows: X(id, tag). To add one: a row; then read it in
   vit__load. */
#define VIT__SECTION_LIST(X)                                                   \
    X(FIELDS, "fields\0\0")                                                    \
    X(TENSORS, "tensors\0")                                                    \
    X(LABELS, "labels\0\0")                                                    \
    X(SYNSETS, "synsets\0")                                                    \
    X(SOURCE, "source\0\0")                                                    \
    X(FITS16, "fits16\0\0")                                                    \
    X(DATA, "data\0\0\0\0")

enum {
#define VIT_X(id, tag) VIT__##id,
    VIT__SECTION_LIST(VIT_X)
#undef VIT_X
    VIT__NUM_SECTIONS
};

#define VIT_X(id, tag) tag,
static const char vit__section_tags[VIT__NUM_SECTIONS][9] = { VIT__SECTION_LIST(VIT_X) };
#undef VIT_X

/* A name from the file, of at most `size` bytes. Unprintable bytes become '?', because they could
   control a terminal. */
static void vit__put_name(vit__text *text, const unsigned char *name, int size) {
    char one[2] = { 0, 0 };
    int i;
    for (i = 0; i < size && name[i]; i++) {
        one[0] = name[i] >= 32 && name[i] < 127 ? (char)name[i] : '?';
        vit__put(text, one);
    }
}

static vit_result vit__fail_name(char *detail, vit_result result, const char *before,
                                 const unsigned char *name, int size, const char *after) {
    vit__text text = vit__say(detail, before);
    vit__put_name(&text, name, size);
    vit__put(&text, after);
    return result;
}

/* Checks reserved bytes and the gaps between tensors. */
static int vit__is_zero(const unsigned char *bytes, uint64_t size) {
    size_t i;
    for (i = 0; i < size; i++)
        if (bytes[i]) return 0;
    return 1;
}

/* Magic, version, sizes, and the checksum of everything but the data section. Copies the header;
   the rest of loading takes the sizes from the copy. */
static vit_result vit__check_header(vit_model *model, unsigned char header[VIT_HEADER_SIZE]) {
    static const unsigned char zero[8] = { 0 };
    uint64_t file_size, meta_size, num_sections;
    vit_hash hash;
    if (model->size < VIT_HEADER_SIZE) {
        if (model->size >= 8 && memcmp(model->data, VIT_FILE_MAGIC, 8) != 0)
            return vit__fail(model->detail, VIT_ERROR_MAGIC, "it has no .vit magic number");
        return vit__fail_int(model->detail, VIT_ERROR_TRUNCATED, "file size, at least",
                             VIT_HEADER_SIZE, model->size);
    }
    memcpy(header, model->data, VIT_HEADER_SIZE);
    if (memcmp(header, VIT_FILE_MAGIC, 8) != 0)
        return vit__fail(model->detail, VIT_ERROR_MAGIC, "it has no .vit magic number");
    if (vit__u32(header + VIT_HEADER_VERSION) != VIT_FILE_VERSION)
        return vit__fail_int(model->detail, VIT_ERROR_VERSION, "file version", VIT_FILE_VERSION,
                             vit__u32(header + VIT_HEADER_VERSION));
    file_size = vit__u64(header + VIT_HEADER_FILE_SIZE);
    if (file_size != model->size)
        return vit__fail_int(model->detail,
                             model->size < file_size ? VIT_ERROR_TRUNCATED : VIT_ERROR_CORRUPT,
                             "file size", file_size, model->size);
    if (!vit__is_zero(header + VIT_HEADER_RESERVED, VIT_HEADER_SIZE - VIT_HEADER_RESERVED))
        return vit__fail(model->detail, VIT_ERROR_CORRUPT, "reserved bytes are not zero");
    meta_size = vit__u64(header + VIT_HEADER_META_SIZE);
    num_sections = vit__u32(header + VIT_HEADER_NUM_SECTIONS);
    if (meta_size < VIT_HEADER_SIZE || meta_size > file_size ||
        num_sections > (meta_size - VIT_HEADER_SIZE) / VIT_SECTION_SIZE)
        return vit__fail(model->detail, VIT_ERROR_CORRUPT, "the section table exceeds meta_size");
    vit_hash_init(&hash);
    vit_hash_update(&hash, header, VIT_HEADER_CHECKSUM);
    vit_hash_update(&hash, zero, sizeof zero);
    vit_hash_update(&hash, model->data + VIT_HEADER_CHECKSUM + 8,
                    (size_t)meta_size - VIT_HEADER_CHECKSUM - 8);
    if (vit_hash_final(&hash) != vit__u64(header + VIT_HEADER_CHECKSUM))
        return vit__fail(model->detail, VIT_ERROR_CORRUPT, "the header's checksum does not match");
    return VIT_OK;
}

static vit_result vit__read_section(vit_model *model, uint64_t meta_size,
                                    const unsigned char *entry, vit__section *sections) {
    const uint64_t offset = vit__u64(entry + VIT_SECTION_OFFSET);
    const uint64_t size = vit__u64(entry + VIT_SECTION_BYTES);
    const uint32_t required = vit__u32(entry + VIT_SECTION_REQUIRED);
    uint64_t begin = VIT_HEADER_SIZE, end = meta_size;
    int i = 0;
    while (i < VIT__NUM_SECTIONS && memcmp(entry, vit__section_tags[i], 8) != 0) i++;
    if (i == VIT__NUM_SECTIONS)
        return required ? vit__fail_name(model->detail, VIT_ERROR_UNSUPPORTED, "section \"", entry,
                                         8, "\" is required, but unknown to this vit.h")
                        : VIT_OK;
    if (sections[i].at || required > 1)
        return vit__fail_name(model->detail, VIT_ERROR_CORRUPT, "section \"", entry, 8,
                              required > 1 ? "\" has an unknown flag" : "\" appears twice");
    if (i == VIT__DATA) {
        begin = meta_size;
        end = model->size;
    }
    if (offset < begin || offset > end || size > end - offset ||
        (offset & (i == VIT__DATA ? VIT_ALIGN - 1u : 7u)) != 0)
        return vit__fail_name(model->detail, VIT_ERROR_CORRUPT, "section \"", entry, 8,
                              "\" is out of place");
    sections[i].at = model->data + offset;
    sections[i].offset = offset;
    sections[i].size = size;
    sections[i].count = vit__u32(entry + VIT_SECTION_COUNT);
    return VIT_OK;
}

/* Finds every section and checks that it lies within the file. */
static vit_result vit__read_sections(vit_model *model, const unsigned char *header,
                                     vit__section *sections) {
    const uint64_t meta_size = vit__u64(header + VIT_HEADER_META_SIZE);
    const uint32_t count = vit__u32(header + VIT_HEADER_NUM_SECTIONS);
    static const int required[3] = { VIT__FIELDS, VIT__TENSORS, VIT__DATA };
    uint32_t i;
    for (i = 0; i < count; i++) {
        const vit_result result = vit__read_section(
            model, meta_size, model->data + VIT_HEADER_SIZE + (size_t)i * VIT_SECTION_SIZE,
            sections);
        if (result) return result;
    }
    for (i = 0; i < 3; i++)
        if (!sections[required[i]].at)
            return vit__fail_name(model->detail, VIT_ERROR_CORRUPT, "section \"",
                                  (const unsigned char *)vit__section_tags[required[i]], 8,
                                  "\" is missing");
    if (sections[VIT__FIELDS].count > sections[VIT__FIELDS].size / VIT_FIELD_SIZE ||
        sections[VIT__TENSORS].count > sections[VIT__TENSORS].size / VIT_TENSOR_SIZE)
        return vit__fail(model->detail, VIT_ERROR_CORRUPT, "a section is too small for its count");
    model->fields = sections[VIT__FIELDS].at;
    model->num_fields = sections[VIT__FIELDS].count;
    model->tensors = sections[VIT__TENSORS].at;
    model->num_tensors = sections[VIT__TENSORS].count;
    if (!VIT__HAS_FITS16) return VIT_OK;
    if (sections[VIT__FITS16].at && sections[VIT__FITS16].size < model->num_tensors)
        return vit__fail(model->detail, VIT_ERROR_CORRUPT, "section \"fits16\" is cut off");
    model->fits16 = sections[VIT__FITS16].at;
    return VIT_OK;
}

/* --- fields ------------------------------------------------------------------ */

static int vit__find_field(const unsigned char *record) {
    int i;
    for (i = 0; i < VIT__NUM_FIELDS; i++)
        if (memcmp(record, vit__fields[i].name, sizeof vit__fields[i].name) == 0) return i;
    return -1;
}

/* A field has four bytes in the file and in vit_config. */
typedef char vit__assert_field_size[sizeof(int) == 4 && sizeof(float) == 4 ? 1 : -1];

static vit_result vit__read_field(vit_model *model, const unsigned char *record,
                                  unsigned char seen[VIT__NUM_FIELDS]) {
    const int i = vit__find_field(record);
    const uint32_t bits = vit__u32(record + VIT_FIELD_VALUE);
    if (i < 0)
        return record[VIT_FIELD_REQUIRED]
                   ? vit__fail_name(model->detail, VIT_ERROR_UNSUPPORTED, "option \"", record, 24,
                                    "\" is required, but unknown to this vit.h")
                   : VIT_OK;
    if (seen[i])
        return vit__fail_name(model->detail, VIT_ERROR_CORRUPT, "field \"", record, 24,
                              "\" appears twice");
    if (record[VIT_FIELD_TYPE] != vit__fields[i].is_float || record[VIT_FIELD_REQUIRED] > 1 ||
        !vit__is_zero(record + VIT_FIELD_REQUIRED + 1, 2))
        return vit__fail_name(model->detail, VIT_ERROR_CORRUPT, "field \"", record, 24,
                              "\" has the wrong type or flags");
    memcpy((char *)&model->config + vit__fields[i].offset, &bits, 4);
    seen[i] = 1;
    return VIT_OK;
}

static vit_result vit__read_fields(vit_model *model) {
    vit_config *c = &model->config;
    unsigned char seen[VIT__NUM_FIELDS];
    uint32_t i;
    memset(seen, 0, sizeof seen);
    for (i = 0; i < model->num_fields; i++) {
        const vit_result result =
            vit__read_field(model, model->fields + (size_t)i * VIT_FIELD_SIZE, seen);
        if (result) return result;
    }
    for (i = 0; i < VIT__NUM_FIELDS; i++)
        if (vit__fields[i].required == 1 && !seen[i])
            return vit__fail_name(model->detail, VIT_ERROR_CORRUPT, "field \"",
                                  (const unsigned char *)vit__fields[i].name, 24, "\" is missing");
    if (!seen[VIT__FIELD_resize_height]) c->resize_height = c->img_height;
    if (!seen[VIT__FIELD_resize_width]) c->resize_width = c->img_width;
    model->file_height = c->img_height;
    model->file_width = c->img_width;
    model->file_resize_height = c->resize_height;
    model->file_resize_width = c->resize_width;
    for (i = 0; i < VIT_MAX_CHANS; i++) c->std[i] = 1.0f; /* until the tensor is read */
    return vit_config_check(c, model->detail);
}

/* --- tensors ----------------------------------------------------------------- */

static void vit__read_tensor(const vit_model *model, const unsigned char *entry, vit_tensor *t) {
    int i;
    memcpy(t->name, entry, sizeof t->name);
    t->name[sizeof t->name - 1] = 0;
    t->dtype = (vit_dtype)vit__u32(entry + VIT_TENSOR_DTYPE);
    t->layout = (vit_layout)vit__u32(entry + VIT_TENSOR_LAYOUT);
    t->ndim = (int)vit__u32(entry + VIT_TENSOR_NDIM);
    for (i = 0; i < 4; i++) t->dims[i] = (int)vit__u32(entry + VIT_TENSOR_DIMS + 4 * i);
    t->offset = vit__u64(entry + VIT_TENSOR_OFFSET);
    t->size = vit__u64(entry + VIT_TENSOR_BYTES);
    t->checksum = vit__u64(entry + VIT_TENSOR_CHECKSUM);
    t->data = t->offset <= model->size ? model->data + t->offset : NULL;
}

/* Builds without messages do not store the names of tensors. */
static int vit__is_named(const unsigned char *entry, const char name[64]) {
    return !VIT__TEXTS || memcmp(entry, name, 64) == 0;
}

static vit_result vit__fail_tensor(vit_model *model, const vit_tensor *expected,
                                   const vit_tensor *found) {
    vit__text text = vit__say(model->detail, expected->name);
    vit__put(&text, ": expected ");
    vit__put_shape(&text, expected);
    vit__put(&text, ", found ");
    if (!vit__is_named((const unsigned char *)found->name, expected->name)) {
        vit__put_name(&text, (const unsigned char *)found->name, (int)sizeof found->name);
        vit__put(&text, " ");
    }
    if (found->ndim >= 0 && found->ndim <= 4) vit__put_shape(&text, found);
    return VIT_ERROR_CORRUPT;
}

static int vit__has_dtype(uint32_t dtype) {
    const unsigned all = 1u << VIT_F32 | VIT__HAS_F16 << VIT_F16 | VIT__HAS_BF16 << VIT_BF16 |
                         VIT__HAS_INT8 << VIT_I8 | VIT__HAS_INT4 << VIT_I4;
    return dtype < VIT_NUM_DTYPES && (all >> dtype & 1u);
}

/* Compares an entry of the directory with the tensor that the architecture has there. */
static vit_result vit__check_tensor(vit_model *model, const unsigned char *entry, int index) {
    vit_tensor expected, found;
    const uint32_t dtype = vit__u32(entry + VIT_TENSOR_DTYPE);
    if (!vit__has_dtype(dtype) || vit__u32(entry + VIT_TENSOR_LAYOUT) >= VIT_NUM_LAYOUTS)
        return vit__fail_name(model->detail, VIT_ERROR_UNSUPPORTED, "", entry, 64,
                              ": its dtype or layout is unknown to this vit.h");
    if (!vit_architecture_tensor(&model->config, (vit_dtype)dtype, index, &expected))
        return vit__fail_name(model->detail, VIT_ERROR_CORRUPT, "tensor ", entry, 64,
                              " is not part of this architecture");
    vit__read_tensor(model, entry, &found);
    if (expected.layout == VIT_LAYOUT_GROUPS && found.layout == VIT_LAYOUT_PANELS)
        return vit__fail_name(model->detail, VIT_ERROR_UNSUPPORTED, "", entry, 64,
                              ": int4 of vit.h 0.1.0, which computed it in f32: convert the "
                              "checkpoint again");
    if (!vit__is_named(entry, expected.name) || found.dtype != expected.dtype ||
        found.layout != expected.layout || found.ndim != expected.ndim ||
        memcmp(found.dims, expected.dims, sizeof found.dims) != 0)
        return vit__fail_tensor(model, &expected, &found);
    if (!vit__is_zero(entry + VIT_TENSOR_DIMS + 16, 4) ||
        !vit__is_zero(entry + VIT_TENSOR_CHECKSUM + 8, 8))
        return vit__fail_name(model->detail, VIT_ERROR_CORRUPT, "", entry, 64,
                              ": reserved bytes are not zero");
    if (found.size != expected.size)
        return vit__fail_int(model->detail, VIT_ERROR_CORRUPT, expected.name, expected.size,
                             found.size);
    return VIT_OK;
}

static vit_result vit__check_tensors(vit_model *model) {
    const unsigned char *entry = model->tensors;
    vit_tensor expected;
    uint32_t i;
    for (i = 0; i < model->num_tensors; i++, entry += VIT_TENSOR_SIZE) {
        const vit_result result = vit__check_tensor(model, entry, (int)i);
        if (result) return result;
    }
    if (vit_architecture_tensor(&model->config, VIT_F32, (int)i, &expected)) {
        vit__text text = vit__say(model->detail, expected.name);
        vit__put(&text, ": this tensor and all after it are missing");
        return VIT_ERROR_CORRUPT;
    }
    return VIT_OK;
}

/* Checks that the data of all tensors lies within its section, in order and without overlap. No
   subtraction below wraps, even for hostile files: offset >= end >= data->offset. */
static vit_result vit__check_places(vit_model *model, const vit__section *data) {
    const unsigned char *entry = model->tensors;
    uint64_t end = data->offset;
    uint32_t i;
    for (i = 0; i < model->num_tensors; i++, entry += VIT_TENSOR_SIZE) {
        const uint64_t offset = vit__u64(entry + VIT_TENSOR_OFFSET);
        const uint64_t size = vit__u64(entry + VIT_TENSOR_BYTES);
        if (offset % VIT_ALIGN != 0 || offset < end || offset - data->offset > data->size ||
            size > data->size - (offset - data->offset))
            return vit__fail_name(model->detail, VIT_ERROR_CORRUPT, "", entry, 64,
                                  ": its data is out of place");
        end = offset + size;
    }
    return VIT_OK;
}

/* Copies mean and std to the config for preprocessing. */
static vit_result vit__read_normalisation(vit_model *model) {
    const size_t chans = (size_t)model->config.in_chans;
    vit_tensor t;
    vit__read_tensor(model, model->tensors + (size_t)VIT__MEAN * (size_t)VIT_TENSOR_SIZE, &t);
    vit__copy_stored(model->config.mean, t.data, chans);
    vit__read_tensor(model, model->tensors + (size_t)VIT__STD * (size_t)VIT_TENSOR_SIZE, &t);
    vit__copy_stored(model->config.std, t.data, chans);
    return vit_config_check(&model->config, model->detail);
}

/* --- strings ----------------------------------------------------------------- */

/* The section ends with a NUL and every offset is within it, so every string ends. */
static vit_result vit__check_strings(vit_model *model, const vit__section *section,
                                     const char *name) {
    vit__text text;
    uint32_t i;
    if (!section->at || section->count == 0) return VIT_OK;
    if (section->size < 4 * (uint64_t)section->count + 1 || section->at[section->size - 1] != 0)
        return vit__fail_name(model->detail, VIT_ERROR_CORRUPT, "section \"",
                              (const unsigned char *)name, 8, "\" is cut off");
    for (i = 0; i < section->count; i++) {
        const uint32_t offset = vit__u32(section->at + 4 * (size_t)i);
        if (offset < 4 * (uint64_t)section->count || offset >= section->size) {
            text = vit__say(model->detail, "section \"");
            vit__put(&text, name);
            vit__put(&text, "\": the offset of string ");
            vit__put_int(&text, i);
            vit__put(&text, " is beyond its end");
            return VIT_ERROR_CORRUPT;
        }
    }
    return VIT_OK;
}

static vit_result vit__read_strings(vit_model *model, const vit__section *sections) {
    const vit__section *source = &sections[VIT__SOURCE];
    vit_result result = VIT_OK;
    if (!VIT__TEXTS) return result;
    result = vit__check_strings(model, &sections[VIT__LABELS], "labels");
    if (!result) result = vit__check_strings(model, &sections[VIT__SYNSETS], "synsets");
    if (result) return result;
    if (source->at && (source->size == 0 || source->at[source->size - 1] != 0))
        return vit__fail(model->detail, VIT_ERROR_CORRUPT, "section \"source\" is cut off");
    model->labels = sections[VIT__LABELS].at;
    model->num_labels = sections[VIT__LABELS].count;
    model->synsets = sections[VIT__SYNSETS].at;
    model->num_synsets = sections[VIT__SYNSETS].count;
    model->source = source->at;
    return VIT_OK;
}

static const char *vit__string(const unsigned char *section, uint32_t count, int index) {
    if (!section || index < 0 || (uint32_t)index >= count) return NULL;
    return (const char *)section + vit__u32(section + 4 * (size_t)index);
}

VIT_API const char *vit_label(const vit_model *model, int index) {
    return vit__is_checked(model) ? vit__string(model->labels, model->num_labels, index) : NULL;
}

VIT_API const char *vit_synset(const vit_model *model, int index) {
    return vit__is_checked(model) ? vit__string(model->synsets, model->num_synsets, index) : NULL;
}

VIT_API const char *vit_source(const vit_model *model) {
    return vit__is_checked(model) && model->source ? (const char *)model->source : "";
}

/* --- opening ----------------------------------------------------------------- */

/* Checks tensor i against section "fits16". */
static vit_result vit__check_fits16(vit_model *model, int i, const vit_tensor *t) {
    const unsigned char *panel = (const unsigned char *)t->data;
    const int depth = vit__depth_of(t);
    vit__text text;
    int row = 0;
    if (VIT__IS_FIXED && !VIT__ADDS_16) return VIT_OK; /* no kernel reads it */
    if (!model->fits16 || !model->fits16[i]) return VIT_OK;
    if (VIT__HAS_INT8 && t->dtype == VIT_I8)
        for (; row < t->dims[0] && vit_fits16(panel, depth); row += 16)
            panel += vit__panel_bytes(VIT_I8, depth);
    if (row >= t->dims[0]) return VIT_OK;
    text = vit__say(model->detail, t->name);
    vit__put(&text, ": damaged: its sums do not fit 16 bits, against \"fits16\"");
    return VIT_ERROR_CORRUPT;
}

/* If the section were wrong, kernels that rely on it would silently compute other results. */
static vit_result vit__check_all_fits16(vit_model *model) {
    vit_result result = VIT_OK;
    vit_tensor t;
    int i;
    for (i = 0; VIT__ADDS_16 && model->fits16 && !result && vit_model_tensor(model, i, &t); i++)
        result = vit__check_fits16(model, i, &t);
    return result;
}

#if !defined(VIT_BARE_METAL)
/* The place of an optional section of an open model; 0 bytes at the file's end if there is none. */
static uint64_t vit__find_section(const vit_model *model, const char tag[9], uint64_t *size) {
    const uint32_t count = vit__u32(model->data + VIT_HEADER_NUM_SECTIONS);
    const unsigned char *entry = model->data + VIT_HEADER_SIZE;
    uint32_t i;
    for (i = 0; i < count; i++, entry += VIT_SECTION_SIZE) {
        const uint64_t offset = vit__u64(entry + VIT_SECTION_OFFSET);
        *size = vit__u64(entry + VIT_SECTION_BYTES);
        if (memcmp(entry, tag, 8) == 0 && offset <= model->size && *size <= model->size - offset)
            return offset;
    }
    *size = 0;
    return model->size;
}
#endif

VIT_API vit_result vit_model_verify(vit_model *model) {
    uint64_t end, encoder, encoder_size;
    int i, zero = 1;
    vit_tensor t;
    if (!vit__is_checked(model)) return VIT_ERROR_ARGUMENT;
    end = vit__u64(model->data + VIT_HEADER_META_SIZE);
    for (i = 0; vit_model_tensor(model, i, &t); i++) {
        vit_hash hash;
        vit_hash_init(&hash);
        vit_hash_update(&hash, t.data, (size_t)t.size);
        if (vit_hash_final(&hash) != t.checksum) {
            vit__text text = vit__say(model->detail, t.name);
            vit__put(&text, ": its checksum does not match");
            return VIT_ERROR_CORRUPT;
        }
        if (vit__check_fits16(model, i, &t)) return VIT_ERROR_CORRUPT;
        zero &= vit__is_zero(model->data + end, t.offset - end);
        end = t.offset + t.size;
    }
    encoder = model->size;
    encoder_size = 0;
#if !defined(VIT_BARE_METAL)
    encoder = vit__find_section(model, "text\0\0\0\0", &encoder_size);
#endif
    if (!zero || encoder < end || !vit__is_zero(model->data + end, encoder - end) ||
        !vit__is_zero(model->data + encoder + encoder_size, model->size - encoder - encoder_size))
        return vit__fail(model->detail, VIT_ERROR_CORRUPT, "a gap between tensors is not zero");
    return VIT_OK;
}

VIT_API int vit_model_tensor(const vit_model *model, int index, vit_tensor *tensor) {
    if (!vit__is_checked(model) || index < 0 || (uint32_t)index >= model->num_tensors) return 0;
    vit__read_tensor(model, model->tensors + (size_t)index * VIT_TENSOR_SIZE, tensor);
    return 1;
}

VIT_API uint64_t vit_model_signature(const vit_model *model) {
    const unsigned char *entry;
    vit_hash hash;
    uint32_t i;
    if (!vit__is_checked(model)) return 0;
    entry = model->tensors;
    vit_hash_init(&hash);
    vit_hash_update(&hash, model->fields, (size_t)model->num_fields * VIT_FIELD_SIZE);
    for (i = 0; i < model->num_tensors; i++, entry += VIT_TENSOR_SIZE) {
        vit_hash_update(&hash, entry, VIT_TENSOR_OFFSET);
        vit_hash_update(&hash, entry + VIT_TENSOR_BYTES, 8);
        if (i <= VIT__STD) /* these belong to the config */
            vit_hash_update(&hash, model->data + (size_t)vit__u64(entry + VIT_TENSOR_OFFSET),
                            (size_t)vit__u64(entry + VIT_TENSOR_BYTES));
    }
    return vit_hash_final(&hash);
}

/* In builds for one architecture, a matching signature guarantees the config and all properties of
   tensors but their places and elements. */
static vit_result vit__check_signature(vit_model *model, const vit__section *data) {
    const vit_result result = vit__check_places(model, data);
    if (result) return result;
    if (vit_model_signature(model) != VIT__SIGNATURE)
        return vit__fail(model->detail, VIT_ERROR_UNSUPPORTED,
                         "its architecture is not the one this program was built for");
    return VIT_OK;
}

/* Reads the configuration and the tensors that it implies. */
static vit_result vit__read_architecture(vit_model *model, const vit__section *data) {
    vit_result result;
    if (VIT__IS_FIXED) return vit__check_signature(model, data);
    result = vit__read_fields(model);
    if (!result) result = vit__check_tensors(model);
    if (!result) result = vit__check_places(model, data);
    if (!result) result = vit__read_normalisation(model);
    return result;
}

VIT__CALL vit_result vit__load(vit_model *model, unsigned flags) {
    vit__section sections[VIT__NUM_SECTIONS];
    unsigned char header[VIT_HEADER_SIZE];
    vit_result result;
    memset(sections, 0, sizeof sections);
    result = vit__check_header(model, header);
    if (!result) result = vit__read_sections(model, header, sections);
    if (!result) result = vit__read_architecture(model, &sections[VIT__DATA]);
    if (!result) result = vit__read_strings(model, sections);
    if (!result)
        result = flags & VIT_OPEN_VERIFY ? vit_model_verify(model) : vit__check_all_fits16(model);
    if (result) model->tensors = NULL; /* marks the model as unusable */
    return result;
}

VIT_API unsigned vit_abi(void) { return VIT_ABI_OF_PROGRAM; }

#if defined(VIT_BARE_METAL)
/* Only a file that includes vit.h without VIT_BARE_METAL passes an ABI. */
static vit_result vit__begin_open(unsigned abi, vit_model *model) {
    memset(model, 0, sizeof *model);
    return abi ? VIT_ERROR_ABI : VIT_OK;
}
#else

/* Appends "; this is vit.h 2.0.0, which takes 4 to 4". */
static vit_result vit__refuse_abi(vit__text text) {
    vit__put(&text, "; this is vit.h ");
    vit__put_int(&text, VIT_VERSION_MAJOR);
    vit__put(&text, ".");
    vit__put_int(&text, VIT_VERSION_MINOR);
    vit__put(&text, ".");
    vit__put_int(&text, VIT_VERSION_PATCH);
    vit__put(&text, ", which takes ");
    vit__put_int(&text, VIT_ABI_OLDEST);
    vit__put(&text, " to ");
    vit__put_int(&text, VIT_ABI);
    return VIT_ERROR_ABI;
}

/* Zeroes the caller's struct, unless its size may differ because the ABI does. */
static vit_result vit__begin_open(unsigned program, vit_model *model) {
    const unsigned abi = program & 0xff, size = (program >> 8) * 4;
    vit__text text;
    if (abi >= VIT_ABI_OLDEST && abi <= VIT_ABI && size == sizeof *model) {
        memset(model, 0, sizeof *model);
        model->abi = VIT_ABI_OF_PROGRAM;
        return VIT_OK;
    }
    model->abi = 0;
    if (!abi) {
        text = vit__say(model->detail, "the program names no ABI: pass vit_abi()");
        return vit__refuse_abi(text);
    }
    if (size < offsetof(vit_model, config)) return VIT_ERROR_ABI;
    memset(model, 0, size);
    if (abi < VIT_ABI_OLDEST || abi > VIT_ABI) {
        text = vit__say(model->detail, "the program was compiled for ABI ");
        vit__put_int(&text, abi);
        return vit__refuse_abi(text);
    }
    return vit__fail_int(model->detail, VIT_ERROR_ABI,
                         "sizeof(vit_model) in the program, by VIT_MAX_CHANS and others",
                         sizeof *model, size);
}
#endif

VIT_API vit_result vit_model_open_memory_as(unsigned abi, const void *data, size_t size,
                                            unsigned flags, vit_model *model) {
    vit_result result;
    if (!model) return VIT_ERROR_ARGUMENT;
    result = vit__begin_open(abi, model);
    if (result) return result;
    if (!data) return vit__fail(model->detail, VIT_ERROR_ARGUMENT, "data is NULL");
    if ((uintptr_t)data % 16 != 0)
        return vit__fail_int(model->detail, VIT_ERROR_ALIGNMENT, "data modulo 16", 0,
                             (uintptr_t)data % 16);
    model->data = (const unsigned char *)data;
    model->size = size;
    return vit__load(model, flags);
}

#if VIT__TEXT_ENCODER
VIT_API vit_result vit_model_text(const vit_model *model, unsigned flags, vit_model *text) {
    uint64_t offset, size;
    if (!text || !vit__is_checked(model)) return VIT_ERROR_ARGUMENT;
    offset = vit__find_section(model, "text\0\0\0\0", &size);
    if (!model->config.vocab_size && size) {
        vit_result result = vit_model_open_memory_as(
            VIT_ABI_OF_PROGRAM, model->data + (size_t)offset, (size_t)size, flags, text);
        if (!result && vit_embedding_dim(text) != vit_embedding_dim(model))
            result = vit__fail(text->detail, VIT_ERROR_CORRUPT,
                               "the text encoder's embedding has another width than the image's");
        return result;
    }
    memset(text, 0, sizeof *text);
    text->abi = VIT_ABI_OF_PROGRAM;
    if (!model->config.vocab_size)
        return vit__fail(text->detail, VIT_ERROR_UNSUPPORTED, "the file has no text encoder");
    *text = *model;
    text->ownership = 0;
    return VIT_OK;
}
#endif

#ifndef VIT_NO_STDIO

/* Values of vit_model.ownership. */
enum { VIT__BORROWED, VIT__MAPPED, VIT__ALLOCATED };

#    if VIT__MMAP || !defined(VIT_NO_MALLOC)
/* strerror depends on the locale, and threads may not share it. */
static vit_result vit__fail_system(vit_model *model, const char *what, int code) {
    static const struct { int code; const char *text; } reasons[] = {
#        if VIT__WINDOWS
        { ERROR_FILE_NOT_FOUND, "No such file or directory" },
        { ERROR_PATH_NOT_FOUND, "No such file or directory" },
        { ERROR_ACCESS_DENIED, "Permission denied" },
        { ERROR_TOO_MANY_OPEN_FILES, "Too many open files" }
#        else
        { ENOENT, "No such file or directory" },
        { ENOTDIR, "Not a directory" },
        { EISDIR, "Is a directory" },
        { EACCES, "Permission denied" },
        { ENAMETOOLONG, "File name too long" },
        { EMFILE, "Too many open files" }
#        endif
    };
    const size_t count = sizeof reasons / sizeof *reasons;
    vit__text text = vit__say(model->detail, what);
    size_t i = 0;
    while (i < count && reasons[i].code != code) i++;
    vit__put(&text, i < count ? ": " : ": error ");
    if (i < count) vit__put(&text, reasons[i].text);
    else vit__put_int(&text, (unsigned)code);
    return VIT_ERROR_IO;
}
#    endif

/* Puts "models/x.vit: " before the message of a failed open. A path that is too long loses its
   beginning, not the message. */
static void vit__put_path(vit_model *model, const char *path) {
    char message[VIT_MAX_DETAIL];
    vit__text text;
    size_t length = 0;
    memcpy(message, model->detail, sizeof message);
    while (path[length]) length++;
    text = vit__say(model->detail, length > VIT_MAX_DETAIL / 2 ? "..." : "");
    for (; *path; path++, length--) {
        const char one[2] = { *path, 0 };
        if (length <= VIT_MAX_DETAIL / 2)
            vit__put(&text, (unsigned char)*path < 32 || *path == 127 ? "?" : one);
    }
    vit__put(&text, ": ");
    vit__put(&text, message);
}

#    if VIT__WINDOWS
/* Converts a UTF-8 path for the system, in wide[VIT__PATH + 8]; NULL if that fails. Windows needs
   paths of 260 characters and more to be absolute, with a prefix. */
#        define VIT__PATH 2048
static const WCHAR *vit__wide_path(const char *path, WCHAR *wide, vit_model *model) {
    static const WCHAR prefix[] = L"\\\\?\\", share[] = L"\\\\?\\UNC";
    WCHAR name[VIT__PATH], *const full = wide + 8;
    DWORD length = 0;
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, name, VIT__PATH))
        length = GetFullPathNameW(name, VIT__PATH, full, NULL);
    if (!length || length >= VIT__PATH) {
        vit__fail(model->detail, VIT_ERROR_IO,
                  !length && GetLastError() == ERROR_NO_UNICODE_TRANSLATION
                      ? "has a name that is not UTF-8"
                  : *path ? "has a path that is too long"
                          : "cannot be opened: No such file or directory");
        return NULL;
    }
    if (length < MAX_PATH || memcmp(full, prefix, 4 * sizeof *full) == 0) return full;
    if (full[0] == L'\\' && full[1] == L'\\')
        return (const WCHAR *)memcpy(full - 6, share, 7 * sizeof *full);
    return (const WCHAR *)memcpy(full - 4, prefix, 4 * sizeof *full);
}

static vit_result vit__not_opened(vit_model *model) {
    const DWORD code = GetLastError();
    if (code == ERROR_SHARING_VIOLATION)
        return vit__fail(model->detail, VIT_ERROR_IO, "is open in another program");
    return vit__fail_system(model, "cannot be opened", (int)code);
}
#    endif

#    if VIT__MMAP && !VIT__WINDOWS
static vit_result vit__map(const char *path, vit_model *model) {
    struct stat status;
    void *data;
#        if defined(O_CLOEXEC)
    const int file = open(path, O_RDONLY | O_CLOEXEC);
#        elif defined(__O_CLOEXEC)
    const int file = open(path, O_RDONLY | __O_CLOEXEC);
#        else
    const int file = open(path, O_RDONLY);
#        endif
    if (file < 0) return vit__fail_system(model, "cannot be opened", errno);
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(file);
        return vit__fail(model->detail, VIT_ERROR_IO, "is not a regular file");
    }
    if (status.st_size <= 0 || (uint64_t)(size_t)status.st_size != (uint64_t)status.st_size) {
        close(file);
        return vit__fail(model->detail, status.st_size ? VIT_ERROR_MEMORY : VIT_ERROR_TRUNCATED,
                         status.st_size ? "is larger than the address space" : "is empty");
    }
    data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) vit__fail_system(model, "cannot be mapped", errno);
    close(file);
    if (data == MAP_FAILED) return VIT_ERROR_IO;
    model->data = (const unsigned char *)data;
    model->size = (size_t)status.st_size;
    model->ownership = VIT__MAPPED;
    return VIT_OK;
}
#    elif VIT__MMAP
static vit_result vit__map(const char *path, vit_model *model) {
    const DWORD shared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    WCHAR buffer[VIT__PATH + 8];
    const WCHAR *const wide = vit__wide_path(path, buffer, model);
    LARGE_INTEGER size;
    HANDLE mapping = NULL, file;
    if (!wide) return VIT_ERROR_IO;
    file = CreateFileW(wide, GENERIC_READ, shared, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL,
                       NULL);
    if (file == INVALID_HANDLE_VALUE) return vit__not_opened(model);
    size.QuadPart = 0;
    if (GetFileSizeEx(file, &size) && size.QuadPart > 0 &&
        (uint64_t)(size_t)size.QuadPart == (uint64_t)size.QuadPart)
        mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    CloseHandle(file);
    if (!mapping)
        return vit__fail(model->detail, size.QuadPart ? VIT_ERROR_IO : VIT_ERROR_TRUNCATED,
                         size.QuadPart ? "cannot be mapped" : "is empty");
    model->data = (const unsigned char *)MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
    CloseHandle(mapping);
    if (!model->data) return vit__fail(model->detail, VIT_ERROR_IO, "cannot be mapped");
    model->size = (size_t)size.QuadPart;
    model->ownership = VIT__MAPPED;
    return VIT_OK;
}
#    endif

#    ifndef VIT_NO_MALLOC
/* Reads `size` bytes to a 64-byte boundary in a new block. The block's address is stored right
   before the data, for vit_model_close. There is room for it: the data starts at the second
   boundary of the block, so at least VIT_ALIGN bytes are free. */
static vit_result vit__read_bytes(FILE *file, uint64_t file_size, vit_model *model) {
    const size_t bytes = vit__size(file_size + 2 * VIT_ALIGN), size = (size_t)file_size;
    unsigned char *block = bytes ? (unsigned char *)VIT_MALLOC(bytes) : NULL, *data;
    if (!block)
        return vit__fail(model->detail, VIT_ERROR_MEMORY, "not enough memory to read it");
    data = block + 2 * VIT_ALIGN - (uintptr_t)block % VIT_ALIGN;
    memcpy(data - sizeof block, &block, sizeof block);
    model->data = data;
    model->ownership = VIT__ALLOCATED;
    model->size = fread(data, 1, size, file);
    if (model->size != size)
        return vit__fail_int(model->detail, VIT_ERROR_IO, "bytes read", size, model->size);
    return VIT_OK;
}

static FILE *vit__open_file(const char *path, vit_model *model) {
#        if VIT__WINDOWS
    WCHAR buffer[VIT__PATH + 8];
    const WCHAR *const wide = vit__wide_path(path, buffer, model);
    FILE *file = wide ? _wfopen(wide, L"rb") : NULL;
    if (wide && !file) vit__not_opened(model);
#        else
    FILE *file = fopen(path, "rb");
    if (!file) vit__fail_system(model, "cannot be opened", errno);
#        endif
    return file;
}

/* The size of an open file, which it rewinds; -1 on failure. */
static int64_t vit__file_size(FILE *file) {
    int64_t size = -1;
#        if VIT__WINDOWS /* whose long has 32 bits */
    if (_fseeki64(file, 0, SEEK_END) == 0) size = _ftelli64(file);
    return _fseeki64(file, 0, SEEK_SET) == 0 ? size : -1;
#        else
    if (fseek(file, 0, SEEK_END) == 0) size = ftell(file);
    return size != LONG_MAX && fseek(file, 0, SEEK_SET) == 0 ? size : -1;
#        endif
}

static vit_result vit__read(const char *path, vit_model *model) {
    FILE *file = vit__open_file(path, model);
    vit_result result;
    int64_t size;
    if (!file) return VIT_ERROR_IO;
    size = vit__file_size(file);
    if (size < 0)
        result = vit__fail(model->detail, VIT_ERROR_IO, "is not a regular file");
    else if (size == 0)
        result = vit__fail(model->detail, VIT_ERROR_TRUNCATED, "is empty");
    else
        result = vit__read_bytes(file, (uint64_t)size, model);
    fclose(file);
    return result;
}
#    endif

static vit_result vit__acquire(const char *path, unsigned flags, vit_model *model) {
#    if VIT__MMAP
    if (!(flags & VIT_OPEN_COPY)) return vit__map(path, model);
#    else
    (void)flags;
#    endif
#    ifndef VIT_NO_MALLOC
    return vit__read(path, model);
#    else
    (void)path;
    return vit__fail(model->detail, VIT_ERROR_MEMORY, "this build can neither map nor allocate");
#    endif
}

VIT_API vit_result vit_model_open_as(unsigned abi, const char *path, unsigned flags,
                                     vit_model *model) {
    vit_result result;
    if (!model) return VIT_ERROR_ARGUMENT;
    result = vit__begin_open(abi, model);
    if (result) return result;
    if (!path) return vit__fail(model->detail, VIT_ERROR_ARGUMENT, "path is NULL");
    result = vit__acquire(path, flags, model);
    if (!result) result = vit__load(model, flags);
    if (result) {
        char detail[VIT_MAX_DETAIL];
        memcpy(detail, model->detail, sizeof detail);
        vit_model_close(model);
        memcpy(model->detail, detail, sizeof detail);
        vit__put_path(model, path);
    }
    return result;
}

#endif /* VIT_NO_STDIO */

VIT_API void vit_model_close(vit_model *model) {
    if (!model || model->abi != VIT_ABI_OF_PROGRAM) return; /* refused: it may have another size */
#ifndef VIT_NO_STDIO
    if (model->ownership == VIT__MAPPED) {
#    if VIT__MMAP && VIT__WINDOWS
        UnmapViewOfFile(model->data);
#    elif VIT__MMAP
        void *data; /* a copy without const, for munmap */
        memcpy(&data, &model->data, sizeof data);
        munmap(data, model->size);
#    endif
    }
#    ifndef VIT_NO_MALLOC
    if (model->ownership == VIT__ALLOCATED) {
        void *block;
        memcpy(&block, model->data - sizeof block, sizeof block);
        VIT_FREE(block);
    }
#    endif
#endif
    memset(model, 0, sizeof *model);
}

VIT__COLD_END

/* ------------------------------------------------------------------------- */
/* >>threads                                                                 */
/* ------------------------------------------------------------------------- */

/* A pool of workers that wait for jobs. They spin for some microseconds, since the next phase of
   a forward pass follows at once, and then sleep. After spinning in vain they spin less, because
   on a shared CPU it only costs time. A job is a range of indices. Workers and the caller each
   take the next index until none is left, so that a preempted thread delays nobody. */

VIT__INLINE void vit__serial_for(int count, vit_task *task, void *arg) {
    int i;
    for (i = 0; i < count; i++) task(arg, i);
}

#if VIT__POOL

#    if VIT__WINDOWS
typedef HANDLE vit__thread;
typedef CRITICAL_SECTION vit__mutex;
typedef CONDITION_VARIABLE vit__cond;
static int vit__mutex_init(vit__mutex *m) { return InitializeCriticalSection(m), 0; }
static void vit__mutex_destroy(vit__mutex *m) { DeleteCriticalSection(m); }
static void vit__mutex_lock(vit__mutex *m) { EnterCriticalSection(m); }
static void vit__mutex_unlock(vit__mutex *m) { LeaveCriticalSection(m); }
static int vit__cond_init(vit__cond *c) { return InitializeConditionVariable(c), 0; }
static void vit__cond_destroy(vit__cond *c) { (void)c; }
static void vit__cond_wait(vit__cond *c, vit__mutex *m) {
    SleepConditionVariableCS(c, m, INFINITE);
}
static void vit__cond_broadcast(vit__cond *c) { WakeAllConditionVariable(c); }
#    else
typedef pthread_t vit__thread;
typedef pthread_mutex_t vit__mutex;
typedef pthread_cond_t vit__cond;
static int vit__mutex_init(vit__mutex *m) { return pthread_mutex_init(m, NULL); }
static void vit__mutex_destroy(vit__mutex *m) { pthread_mutex_destroy(m); }
static void vit__mutex_lock(vit__mutex *m) { pthread_mutex_lock(m); }
static void vit__mutex_unlock(vit__mutex *m) { pthread_mutex_unlock(m); }
static int vit__cond_init(vit__cond *c) { return pthread_cond_init(c, NULL); }
static void vit__cond_destroy(vit__cond *c) { pthread_cond_destroy(c); }
static void vit__cond_wait(vit__cond *c, vit__mutex *m) { pthread_cond_wait(c, m); }
static void vit__cond_broadcast(vit__cond *c) { pthread_cond_broadcast(c); }
#    endif

/* Sequentially consistent 64-bit atomics, which C99 lacks. */
#    if VIT__GNU
VIT__INLINE uint64_t vit__atomic_load(uint64_t *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
/* Uses an exchange, like a sequentially consistent store on x86. Under QEMU 7.2 a load overtakes
   64-bit ARM's store instruction, and a sleeping thread would not be woken. */
VIT__INLINE void vit__atomic_store(uint64_t *p, uint64_t v) {
    (void)__atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}
VIT__INLINE uint64_t vit__atomic_add(uint64_t *p, uint64_t v) {
    return __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST);
}
VIT__INLINE int vit__atomic_swap(uint64_t *p, uint64_t from, uint64_t to) {
    return __atomic_compare_exchange_n(p, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
#    elif VIT__MSVC
VIT__INLINE uint64_t vit__atomic_add(uint64_t *p, uint64_t v) {
    return (uint64_t)InterlockedExchangeAdd64((volatile LONG64 *)p, (LONG64)v) + v;
}
VIT__INLINE uint64_t vit__atomic_load(uint64_t *p) { return vit__atomic_add(p, 0); }
VIT__INLINE void vit__atomic_store(uint64_t *p, uint64_t v) {
    InterlockedExchange64((volatile LONG64 *)p, (LONG64)v);
}
VIT__INLINE int vit__atomic_swap(uint64_t *p, uint64_t from, uint64_t to) {
    return InterlockedCompareExchange64((volatile LONG64 *)p, (LONG64)to, (LONG64)from) ==
           (LONG64)from;
}
#    else
#        error "vit.h: no atomics for this compiler; define VIT_NO_THREADS"
#    endif

VIT__INLINE void vit__pause(void) {
#    if VIT__GNU && (defined(__x86_64__) || defined(__i386__))
    __asm__ __volatile__("pause");
#    elif VIT__GNU && VIT__ARM64
    __asm__ __volatile__("yield");
#    elif VIT__MSVC
    YieldProcessor();
#    endif
}

/* Rounds of vit__pause before a thread sleeps: at most some 50 microseconds. While spinning fails
   because other programs use the cores, a thread spins an eighth of that. */
#    define VIT__MOST_SPINS 2000
#    define VIT__LEAST_SPINS 250

/* The rounds for the next wait, from those of this wait and whether they sufficed. */
static int vit__next_spins(int spins, int enough) {
    return enough ? vit__min(2 * spins, VIT__MOST_SPINS) : vit__max(spins / 2, VIT__LEAST_SPINS);
}

struct vit_threads {
    /* The job in progress. ticket holds the job number in its upper 32 bits and the next index in
       its lower. A thread reads the other fields before it takes an index, and uses them only if it
       gets the index, which proves that the job is still the same. The fields are atomics, so that
       a late reader is no data race. */
    uint64_t ticket;
    uint64_t count, task, arg;
    uint64_t finished; /* completed indices of this job */

    uint64_t sleepers; /* workers waiting for `wake`, and the caller for `done` */
    uint64_t caller_sleeps;
    uint64_t stop;
    vit__mutex mutex; /* held while deciding to sleep or to wake */
    vit__mutex owner; /* held by the session that runs a job */
    vit__cond wake, done;
    uint64_t threads[VIT_MAX_THREADS]; /* vit__self of `owner`'s holder or 0, then the workers' */
    uint64_t num_started;
    int num_workers;
    int spins; /* rounds of the caller, while it holds `owner` */
    vit__thread workers[VIT_MAX_THREADS];
};

/* Identifies the calling thread; never 0. */
static uint64_t vit__self(void) {
#    if VIT__WINDOWS
    return GetCurrentThreadId();
#    else
    return (uint64_t)(uintptr_t)pthread_self();
#    endif
}

/* 1 if the caller runs inside a task of this pool. Waiting for the pool would deadlock. */
static int vit__pool_is_running(vit_threads *pool) {
    const uint64_t self = vit__self();
    int i;
    for (i = 0; i <= pool->num_workers; i++)
        if (vit__atomic_load(&pool->threads[i]) == self) return 1;
    return 0;
}

/* Takes indices of job `job` until none is left. The swap fails if another thread took the index or
   the job has ended; the values read before it are then dropped. */
static void vit__pool_work(vit_threads *pool, uint64_t job) {
    for (;;) {
        const uint64_t ticket = vit__atomic_load(&pool->ticket);
        const uint64_t count = vit__atomic_load(&pool->count);
        const uint64_t task_bits = vit__atomic_load(&pool->task);
        const uint64_t arg_bits = vit__atomic_load(&pool->arg);
        vit_task *task;
        void *arg;
        if (ticket >> 32 != job || (ticket & 0xffffffffu) >= count) return;
        if (!vit__atomic_swap(&pool->ticket, ticket, ticket + 1)) continue;
        task = (vit_task *)(uintptr_t)task_bits;
        arg = (void *)(uintptr_t)arg_bits;
        task(arg, (int)(ticket & 0xffffffffu));
        if (vit__atomic_add(&pool->finished, 1) == count &&
            vit__atomic_load(&pool->caller_sleeps)) {
            vit__mutex_lock(&pool->mutex);
            vit__cond_broadcast(&pool->done);
            vit__mutex_unlock(&pool->mutex);
        }
    }
}

/* Waits for a job other than `last` and returns its number, or `last` if the pool stops. *spins are
   the worker's rounds. */
static uint64_t vit__pool_wait(vit_threads *pool, uint64_t last, int *spins) {
    int i;
    for (i = 0; i < *spins; i++) {
        if (vit__atomic_load(&pool->ticket) >> 32 != last || vit__atomic_load(&pool->stop)) break;
        vit__pause();
    }
    *spins = vit__next_spins(*spins, i < *spins);
    if (vit__atomic_load(&pool->ticket) >> 32 != last || vit__atomic_load(&pool->stop))
        return vit__atomic_load(&pool->ticket) >> 32;
    vit__mutex_lock(&pool->mutex);
    vit__atomic_add(&pool->sleepers, 1);
    while (vit__atomic_load(&pool->ticket) >> 32 == last && !vit__atomic_load(&pool->stop))
        vit__cond_wait(&pool->wake, &pool->mutex);
    vit__atomic_add(&pool->sleepers, (uint64_t)-1);
    vit__mutex_unlock(&pool->mutex);
    return vit__atomic_load(&pool->ticket) >> 32;
}

#    if VIT__WINDOWS
static DWORD WINAPI vit__pool_main(void *arg) {
#    else
static void *vit__pool_main(void *arg) {
#    endif
    vit_threads *pool = (vit_threads *)arg;
    uint64_t job = 0;
    int spins = VIT__MOST_SPINS;
    vit__atomic_store(&pool->threads[vit__atomic_add(&pool->num_started, 1)], vit__self());
#    if defined(__linux__)
    prctl(PR_SET_NAME, "vit-worker", 0, 0, 0); /* for top and debuggers */
#    endif
    while (!vit__atomic_load(&pool->stop)) {
        job = vit__pool_wait(pool, job, &spins);
        vit__pool_work(pool, job);
    }
    return 0;
}

static void vit__pool_wake(vit_threads *pool) {
    if (!vit__atomic_load(&pool->sleepers)) return;
    vit__mutex_lock(&pool->mutex);
    vit__cond_broadcast(&pool->wake);
    vit__mutex_unlock(&pool->mutex);
}

/* Waits until every index of the job is done. */
static void vit__pool_join(vit_threads *pool, uint64_t count) {
    int i;
    for (i = 0; i < pool->spins && vit__atomic_load(&pool->finished) != count; i++) vit__pause();
    pool->spins = vit__next_spins(pool->spins, i < pool->spins);
    if (vit__atomic_load(&pool->finished) == count) return;
    vit__mutex_lock(&pool->mutex);
    vit__atomic_store(&pool->caller_sleeps, 1);
    while (vit__atomic_load(&pool->finished) != count) vit__cond_wait(&pool->done, &pool->mutex);
    vit__atomic_store(&pool->caller_sleeps, 0);
    vit__mutex_unlock(&pool->mutex);
}

static void vit__pool_for(void *user, int count, vit_task *task, void *arg) {
    vit_threads *pool = (vit_threads *)user;
    uint64_t job;
    if (count <= 1 || pool->num_workers == 0 || vit__pool_is_running(pool)) {
        vit__serial_for(count, task, arg);
        return;
    }
    vit__mutex_lock(&pool->owner);
    vit__atomic_store(&pool->threads[0], vit__self());
    /* Index 2^31 is above any count: no thread can take an index between the two stores of the
       ticket, while the fields change. */
    job = ((vit__atomic_load(&pool->ticket) >> 32) + 1) & 0xffffffffu;
    vit__atomic_store(&pool->finished, 0);
    vit__atomic_store(&pool->ticket, job << 32 | 0x80000000u);
    vit__atomic_store(&pool->count, (uint64_t)(unsigned)count);
    vit__atomic_store(&pool->task, (uint64_t)(uintptr_t)task);
    vit__atomic_store(&pool->arg, (uint64_t)(uintptr_t)arg);
    job = (job + 1) & 0xffffffffu;
    vit__atomic_store(&pool->ticket, job << 32);
    vit__pool_wake(pool);
    vit__pool_work(pool, job);
    vit__pool_join(pool, (uint64_t)(unsigned)count);
    vit__atomic_store(&pool->threads[0], 0);
    vit__mutex_unlock(&pool->owner);
}

/* --- how many threads by default ------------------------------------------- */

static int vit__online_cores(void) {
#    if VIT__WINDOWS
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return (int)info.dwNumberOfProcessors;
#    else
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 && cores < VIT_MAX_THREADS ? (int)cores : cores > 0 ? VIT_MAX_THREADS : 1;
#    endif
}

#    if VIT__PROC

/* Appends to a path of VIT__PATH bytes; 0 if it would not fit. */
static int vit__append(char *path, const char *more) {
    size_t at = 0, i;
    while (path[at]) at++;
    for (i = 0; more[i]; i++) {
        if (at + i + 1 >= VIT__PATH) return path[at] = 0;
        path[at + i] = more[i];
    }
    path[at + i] = 0;
    return 1;
}

static FILE *vit__open_system(const char *path, const char *more) {
    char whole[VIT__PATH] = { 0 };
    if (!vit__append(whole, VIT__ROOT) || !vit__append(whole, path) || !vit__append(whole, more))
        return NULL;
    return fopen(whole, "rb");
}

/* The text after `word` if it starts with that, else NULL. */
static const char *vit__after(const char *text, const char *word) {
    while (*word)
        if (*text++ != *word++) return NULL;
    return text;
}

/* The CPUs that this thread may use: the set bits of a line's hexadecimal digits. The line may be
   longer than the buffer. 0 if unknown. */
static int vit__allowed_cores(void) {
    char piece[128];
    int at_start = 1, inside = 0, cores = 0;
    FILE *file = vit__open_system("/proc/thread-self/status", "");
    if (!file) file = vit__open_system("/proc/self/status", "");
    if (!file) return 0;
    while (fgets(piece, sizeof piece, file)) {
        const char *p = piece;
        if (at_start) {
            p = vit__after(piece, "Cpus_allowed:");
            inside = p != NULL;
            if (!inside) p = piece;
        }
        for (; *p && *p != '\n'; p++) {
            const int digit = *p >= '0' && *p <= '9' ? *p - '0' :
                              *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : 0;
            if (inside) cores += (digit & 1) + (digit >> 1 & 1) + (digit >> 2 & 1) + (digit >> 3);
        }
        at_start = *p == '\n';
    }
    fclose(file);
    return cores;
}

/* The microseconds at *at, which moves past the space behind them; -1 for "max" and other words. */
static int64_t vit__read_usec(const char **at) {
    const char *p = *at;
    int64_t value = 0;
    if (*p < '0' || *p > '9') value = -1;
    for (; *p >= '0' && *p <= '9'; p++)
        if (value < (int64_t)1 << 48) value = value * 10 + *p - '0';
    while (*p && *p != ' ' && *p != '\n') p++;
    while (*p == ' ') p++;
    *at = p;
    return value;
}

/* The first line of a small file; "" if it has none. */
static const char *vit__first_line(const char *folder, const char *name, char line[64]) {
    FILE *file = vit__open_system(folder, name);
    line[0] = 0;
    if (file && !fgets(line, 64, file)) line[0] = 0;
    if (file) fclose(file);
    return line;
}

/* The quota of one control group in cores, rounded up; 0 for no limit. */
static int vit__quota_of(const char *folder, int version) {
    char text[64], second[64];
    const char *at = vit__first_line(folder, version == 1 ? "/cpu.cfs_quota_us" : "/cpu.max", text);
    const int64_t quota = vit__read_usec(&at);
    int64_t period;
    if (version == 1) at = vit__first_line(folder, "/cpu.cfs_period_us", second);
    period = vit__read_usec(&at);
    if (quota <= 0 || period <= 0) return 0;
    return quota / period >= VIT_MAX_THREADS ? VIT_MAX_THREADS
                                             : (int)((quota + period - 1) / period);
}

static int vit__tighter(int a, int b) { return a && (!b || a < b) ? a : b; }

/* The smallest quota of group `path` and its ancestors below a mounted hierarchy. A container may
   see its own group as the root, under any name. */
static int vit__quota_below(const char *mount, const char *path, int version) {
    char folder[VIT__PATH] = { 0 };
    size_t root = 0, end;
    int cores = 0;
    if (!vit__append(folder, mount)) return 0;
    while (folder[root]) root++;
    (void)vit__append(folder, path);
    for (end = root; folder[end]; end++) continue;
    for (;;) {
        cores = vit__tighter(vit__quota_of(folder, version), cores);
        if (end == root) return cores;
        while (end > root && folder[end] != '/') end--;
        folder[end] = 0;
    }
}

/* 1 if "cpu" is one of the controllers before the colon. */
static int vit__controls_cpu(const char *list) {
    for (;;) {
        const char *rest = vit__after(list, "cpu");
        if (rest && (*rest == ',' || *rest == ':')) return 1;
        while (*list && *list != ',' && *list != ':') list++;
        if (*list != ',') return 0;
        list++;
    }
}

/* The limit that a line of /proc/self/cgroup, "0::/path" or "4:cpu,cpuacct:/path", implies. */
static int vit__quota_of_line(char *line) {
    char *list = line, *path;
    char mount[VIT__PATH] = { 0 };
    while (*list && *list != ':') list++;
    if (*list) list++;
    for (path = list; *path && *path != ':';) path++;
    if (!*path) return 0;
    if (path == list) return vit__quota_below("/sys/fs/cgroup", path + 1, 2);
    if (!vit__controls_cpu(list)) return 0;
    *path = 0;
    if (!vit__append(mount, "/sys/fs/cgroup/") || !vit__append(mount, list)) return 0;
    return vit__tighter(vit__quota_below(mount, path + 1, 1),
                        vit__quota_below("/sys/fs/cgroup/cpu", path + 1, 1));
}

/* The CPU time, in cores, that the control groups of this process (versions 1 and 2) allow. */
static int vit__quota_cores(void) {
    char line[VIT__PATH];
    int cores = 0, at_start = 1;
    FILE *file = vit__open_system("/proc/self/cgroup", "");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        size_t end = 0;
        const int is_start = at_start;
        while (line[end] && line[end] != '\n') end++;
        at_start = line[end] == '\n';
        line[end] = 0;
        if (is_start) cores = vit__tighter(vit__quota_of_line(line), cores);
    }
    fclose(file);
    return cores;
}
#    endif

static int vit__num_cores(void) {
    int cores = vit__online_cores();
#    if VIT__PROC
    cores = vit__tighter(vit__allowed_cores(), cores);
    cores = vit__tighter(vit__quota_cores(), cores);
#    endif
    return cores;
}

static int vit__thread_start(vit__thread *thread, vit_threads *pool) {
#    if VIT__WINDOWS
    *thread = CreateThread(NULL, 0, vit__pool_main, pool, 0, NULL);
    return *thread != NULL;
#    else
    return pthread_create(thread, NULL, vit__pool_main, pool) == 0;
#    endif
}

static void vit__thread_join(vit__thread thread) {
#    if VIT__WINDOWS
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
#    else
    pthread_join(thread, NULL);
#    endif
}

VIT_API void vit_threads_destroy(vit_threads *threads) {
    int i;
    if (!threads) return;
    vit__atomic_store(&threads->stop, 1);
    vit__pool_wake(threads);
    for (i = 0; i < threads->num_workers; i++) vit__thread_join(threads->workers[i]);
    vit__cond_destroy(&threads->done);
    vit__cond_destroy(&threads->wake);
    vit__mutex_destroy(&threads->owner);
    vit__mutex_destroy(&threads->mutex);
    VIT_FREE(threads);
}

/* On failure, undoes the steps that succeeded. */
static int vit__pool_init(vit_threads *pool) {
    if (vit__mutex_init(&pool->mutex) != 0) return 0;
    if (vit__mutex_init(&pool->owner) == 0) {
        if (vit__cond_init(&pool->wake) == 0) {
            if (vit__cond_init(&pool->done) == 0) return 1;
            vit__cond_destroy(&pool->wake);
        }
        vit__mutex_destroy(&pool->owner);
    }
    vit__mutex_destroy(&pool->mutex);
    return 0;
}

VIT_API vit_result vit_threads_create(int num_threads, vit_threads **threads,
                                      vit_executor *executor) {
    vit_threads *pool;
    if (!threads || !executor || num_threads < 0 || num_threads > VIT_MAX_THREADS)
        return VIT_ERROR_ARGUMENT;
    *threads = NULL;
    if (num_threads == 0) num_threads = vit__min(vit__num_cores(), VIT_MAX_THREADS);
    pool = (vit_threads *)VIT_MALLOC(sizeof *pool);
    if (!pool) return VIT_ERROR_MEMORY;
    memset(pool, 0, sizeof *pool);
    pool->spins = VIT__MOST_SPINS;
    if (!vit__pool_init(pool)) {
        VIT_FREE(pool);
        return VIT_ERROR_MEMORY;
    }
    while (pool->num_workers < num_threads - 1) {
        if (!vit__thread_start(&pool->workers[pool->num_workers], pool)) {
            vit_threads_destroy(pool);
            return VIT_ERROR_MEMORY;
        }
        pool->num_workers++;
    }
    *threads = pool;
    executor->parallel_for = vit__pool_for;
    executor->user = pool;
    executor->num_threads = num_threads;
    return VIT_OK;
}

#endif /* VIT__POOL */

/* ------------------------------------------------------------------------- */
/* >>math                                                                    */
/* ------------------------------------------------------------------------- */

/* The fused multiply-add and the square root of plain C, with the same bits on every CPU, unlike
   libm's. exp, GELU and tanh are in >>body.

   One rule keeps the bits under every compiler: a product is never an operand of a plain +,
   because some compilers fuse the two and some do not. A sum of products calls fma explicitly. */

VIT__OPTIMIZE_BEGIN

/* Functions of a tier's table. Some may be unused, which compilers other than GNU C accept of
   inline functions. */
#if VIT__GNU
#    define VIT__ROW static __attribute__((unused))
#else
#    define VIT__ROW static inline
#endif

/* Replaces fma where there is none: two roundings. */
VIT__INLINE float vit__multiply_add(float a, float b, float c) {
    const float product = a * b; /* separate: clang would fuse one expression with the sum */
    return product + c;
}

/* fma in the plain C tier; with VIT__SOFTWARE_FMA it takes a dozen operations. */
#if defined(VIT_NO_FMA) || (defined(VIT_NO_DOUBLE) && !VIT__HAS_FMA)
VIT__INLINE float vit__fma_scalar(float a, float b, float c) { return vit__multiply_add(a, b, c); }
#elif VIT__HAS_FMA && defined(VIT__FMA)
VIT__INLINE float vit__fma_scalar(float a, float b, float c) { return VIT__FMA(a, b, c); }
#else
/* The product of two floats is exact in double. The sum is rounded to odd: its last bit is set if
   anything was lost. That makes the second rounding, to float, correct (Boldo and Melquiond,
   "Emulation of FMA and correctly rounded sums", 2008). */
#    define VIT__SOFTWARE_FMA 1 /* a dozen operations: inline only in matrix products */
VIT__INLINE float vit__fma_inline(float a, float b, float c) {
    const double product = (double)a * (double)b, addend = (double)c;
    double sum = product + addend;
    const double virtual_addend = sum - product; /* Knuth's two-sum: the exact error */
    const double lost = (product - (sum - virtual_addend)) + (addend - virtual_addend);
    uint64_t bits, inexact = (lost > 0) | (lost < 0), away = (lost > 0) == (sum > 0);
    memcpy(&bits, &sum, 8);
    bits += (inexact & ~bits & 1) * (2 * away - 1);
    memcpy(&sum, &bits, 8);
    return (float)sum;
}
VIT__ROW float vit__fma_scalar(float a, float b, float c) { return vit__fma_inline(a, b, c); }
#endif
#ifndef VIT__SOFTWARE_FMA
#    define vit__fma_inline vit__fma_scalar
#endif

/* Correctly rounded square root, so the same everywhere: by the FPU's instruction or digit by
   digit, which is fast enough for small CPUs. Negative values give NaN. */
#if defined(VIT__SQRT)
static float vit__sqrt(float x) {
    VIT__SQRT(x);
    return x;
}
#else
static float vit__sqrt(float x) {
    uint32_t bits = vit__bits(x), rest, root = 0, bit = 1u << 24;
    int exponent;
    if (vit__is_nan(x) || x == 0.0f) return x;
    if (bits >> 31) return vit__float(0x7fc00000u);
    if (!vit__is_finite(x)) return x;
    if (bits < 0x00800000u) { /* subnormal: scale by 2^24 */
        bits = vit__bits(x * 16777216.0f);
        exponent = (int)(bits >> 23) - 127 - 24;
    } else {
        exponent = (int)(bits >> 23) - 127;
    }
    rest = (bits & 0x7fffffu) | 0x800000u;
    rest <<= 1 + (exponent & 1); /* in units of 2^-24: [1, 4) */
    exponent = (exponent - (exponent & 1)) / 2;
    for (; bit; bit >>= 1) { /* rest is the remainder of the square, doubled each round */
        const uint32_t trial = 2 * root + bit;
        if (rest >= trial) {
            rest -= trial;
            root += bit;
        }
        rest <<= 1;
    }
    root = (root >> 1) + (root & 1); /* 25 bits to 24; a tie is impossible */
    return vit__float(((uint32_t)(exponent + 127) << 23) + (root - 0x800000u));
}
#endif

/* A build for one architecture has one activation, apart from those of a stem and of pre_logits. */
VIT__INLINE vit_activation vit__known(vit_activation activation) {
    if (VIT__FIXED_OR(stem, 1) || VIT__FIXED_OR(representation_act, 1)) return activation;
    return (vit_activation)VIT__FIXED_OR(activation, activation);
}

/* The tree that ends every reduction halves 16 lanes four times. It starts by adding lane 8 to lane
   0, as adding the halves of a register does, so that all tiers add in the same order. */
VIT__CALL float vit__sum16(float *lane) {
    int width, i;
    for (width = 8; width; width /= 2)
        for (i = 0; i < width; i++) lane[i] += lane[i + width];
    return lane[0];
}

/* ------------------------------------------------------------------------- */
/* >>kernels                                                                 */
/* ------------------------------------------------------------------------- */

/* The steps of the layers, as a table of functions for each tier. Every function is written
   once, in >>body, over words that the tier defines. */

/* Tiers whose matrix products use register tiles, by the code of >>tiles. */
#define VIT__SHAPES (VIT__SIMD && !VIT__HELIUM)

/* The memory format of rows that enter a linear layer. It depends on the type of the weights and on
   the tier. A row is converted in place. */
typedef enum vit__form {
    VIT__FORM_F32,     /* f32                                                        */
    VIT__FORM_ROUNDED, /* f32 rounded to bf16, for tiers that widen bf16             */
    VIT__FORM_BF16,    /* bf16, an odd depth padded with a zero                      */
    VIT__FORM_I16,     /* i16, an odd depth padded with a zero; only in attention    */
    VIT__FORM_U8,      /* f32 scale, i32 zero, u8 q[]: x = scale * (q - zero);
                          a depth that is no multiple of 4 padded with zeros;
                          int4 reads up to a multiple of 32, whatever is there */
    VIT__FORM_S8       /* FORM_U8 with i8 q[], all 128 less; zeros up to a multiple of 8 */
} vit__form;

#define VIT__U8_HEADER 8 /* bytes before q */

VIT__INLINE int vit__quads(int depth) { return vit__ceil_div(depth, 4); }

/* An optional activation; 0 means none. */
#define VIT__NO_ACT 0
#define VIT__ACT(activation) (1 + (int)(activation))
#define VIT__ACTIVATION(act) ((vit_activation)((act) - 1))

/* The epilogue of a matrix product. It is applied to a tile on its way to memory. */
typedef struct vit__output {
    float *c;              /* [rows, cols] of the result                         */
    size_t ldc;
    const float *bias;     /* [cols], or NULL; bias and gamma are in the file's byte order */
    int act;               /* VIT__ACT(...) or VIT__NO_ACT: c = act(product + bias) */
    int add;               /* 1: c += product + bias, the residual stream        */
    const float *gamma;    /* [cols] of LayerScale, or NULL: c += gamma * (...)  */
} vit__output;

/* The tile that an epilogue reads. */
typedef struct vit__tile {
    const float *data;     /* [rows, cols]                                       */
    int ld, rows, cols;    /* ld: floats from one row to the next                */
} vit__tile;

/* The largest tile of any tier, because tiles are on the stack. Each table asserts that its tiles
   fit. */
#if VIT__SSE2 || VIT__AVX2
#    define VIT__MAX_TILE_ROWS 48
#    define VIT__MAX_TILE_COLS 48
#elif VIT__WASM_SIMD || VIT__NEON
#    define VIT__MAX_TILE_ROWS 24
#    define VIT__MAX_TILE_COLS 16
#else
#    define VIT__MAX_TILE_ROWS 4
#    define VIT__MAX_TILE_COLS 16
#endif

/* The operands of a tile: rows of a layer's input and panels of its weights. */
typedef struct vit__operands {
    const unsigned char *a;     /* [rows, depth], in the kernel's form           */
    size_t lda;                 /* bytes                                         */
    int rows;
    const unsigned char *panel; /* the first of `panels` consecutive panels      */
    int depth, panels;
    size_t ldt;                 /* floats from one row of the tile to the next   */
    int fits16;                 /* int8: the file satisfies the rule of section "fits16" */
#if VIT__SHAPES
    const struct vit__shape *shape; /* the kernel's                              */
#endif
#if VIT__AVX2
    const unsigned char *ahead; /* panels to prefetch, or NULL                   */
#endif
} vit__operands;

/* tile[rows][16 panels] = a[rows][depth] times the panels. Floating point: each element is one
   chain of fma over k in order, from zero; only bf16 goes k = 1, 0, 3, 2, ..., the order of the
   instruction vdpbf16ps. int8: the sum of the products is exact, then (sum - zero * sum of weights)
   * (scale of the row * scale of the column). int4: each group's sum of q * (weight / scale) is
   exact, and fma(sum, scale, chain) adds it to a chain; the result is fma(-zero, sum of weights,
   chain) * scale of the row. i16: the exact sum of the products. */
typedef void vit__gemm_fn(float *tile, const vit__operands *o);

typedef struct vit__gemm_kernel {
    vit__gemm_fn *run;     /* NULL if the tier lacks the kernel                  */
    int tile_rows;         /* even for bf16 and i16, which pack values in token pairs */
    vit__form form;        /* of a                                               */
#if VIT__SHAPES
    const struct vit__shape *shape;
#endif
} vit__gemm_kernel;

/* A norm over one row. */
typedef struct vit__norm_spec {
    const float *weight, *bias; /* [dim]; bias NULL: RMSNorm                     */
    int dim;
    float eps;
} vit__norm_spec;

/* The destination of one head's keys and values, as panels of two layers. Tokens are the columns of
   q k^T and the inner index of softmax v. */
typedef struct vit__packing {
    uint32_t *keys, *values;
    int tokens, dim;
    float *key_steps, *value_steps; /* [tokens], steps of quantised rows, or NULL */
} vit__packing;

/* Some tokens of a head, to be packed. */
typedef struct vit__unpacked {
    const float *k, *v;    /* [count, dim] of tokens first, first + 1, ...       */
    size_t ld;             /* floats from one token to the next                  */
    int first, count;
} vit__unpacked;

/* The input pixels of one output pixel of a resized photo, along one axis. */
typedef struct vit__taps {
    int first, count;      /* input pixels                                       */
    int16_t *weights;      /* [2][even count] in 2^-22: the lower 16 bits, signed, */
} vit__taps;               /*     and the rest, in 2^-6; a 0 fills an odd count  */

VIT__INLINE int vit__even(const vit__taps *taps) { return vit__round_up(taps->count, 2); }

/* 1 if the build quantises attention; vector tiers except Helium always can. */
#define VIT__HAS_I16 (VIT__IN_INTEGERS || VIT__SHAPES)

typedef struct vit__kernels {
    vit_isa isa;
    int tile_panels;       /* tile_cols / 16                                     */
    vit__gemm_kernel gemm[VIT_NUM_DTYPES + VIT__HAS_I16]; /* by type of panels */
    void (*output)(const vit__output *out, const vit__tile *tile);
    void (*convert)(vit__form form, float *row, int n);
    void (*gate)(vit_activation activation, float *x, int n);
    void (*norm)(float *y, const float *x, const vit__norm_spec *norm);
    float (*softmax)(float *x, const float *steps, int n, float scale); /* returns 1 / sum */
#if VIT__HAS_I16
    float (*quantise)(vit__form form, float *row, const float *steps, int n, float factor);
#endif
    void (*pack_head)(vit_dtype dtype, const vit__packing *to, const vit__unpacked *from);
    void (*scale)(float *y, const float *x, int n, float factor);
    void (*add)(float *y, const float *a, const float *b, const float *gamma, int n);
    void (*rotate)(vit_rope rope, float *x, const float *cosine, const float *sine, int half);
    float (*tanh)(float x);
#ifndef VIT_NO_PREPROCESS
    void (*resample)(uint8_t *to, const uint8_t *lines, size_t stride, const vit__taps *taps,
                     int lanes);
#endif
} vit__kernels;

/* The table of a tier, vit__kernels_<tier>. `rows` names the tier whose row functions it takes. A
   kernel for each type of weights follows: (function, rows of its tile, form of a, shape). */
#define VIT__KERNELS(tier, isa, panels, rows, f32, f16, bf16, int8, int4, i16)                    \
    VIT__STATIC_ASSERT(VIT__TILE_FITS(panels, f32) && VIT__TILE_FITS(panels, f16) &&              \
                           VIT__TILE_FITS(panels, bf16) && VIT__TILE_FITS(panels, int8) &&        \
                           VIT__TILE_FITS(panels, int4) && VIT__TILE_FITS(panels, i16),           \
                       a_tile_of_##tier##_exceeds_VIT__MAX_TILE);                                 \
    VIT__STATIC_ASSERT(VIT__TILE_ROWS bf16 % 2 == 0 && VIT__TILE_ROWS i16 % 2 == 0,               \
                       tile_of_##tier##_in_bf16_or_i16_has_odd_rows);                             \
    static const vit__kernels vit__kernels_##tier = {                                             \
        isa,                                                                                      \
        panels,                                                                                   \
        { VIT__KERNEL f32, VIT__KERNEL_F16 f16, VIT__KERNEL_BF16 bf16, VIT__KERNEL_INT8 int8,     \
          VIT__KERNEL_INT4 int4, VIT__OF_I16(VIT__KERNEL_I16 i16) },                              \
        vit__output_##rows,                                                                       \
        vit__convert_##rows,                                                                      \
        vit__gate_##rows,                                                                         \
        vit__norm_##rows,                                                                         \
        vit__softmax_##rows,                                                                      \
        VIT__OF_I16(vit__quantise_##rows)                                                         \
        vit__pack_head_##rows,                                                                    \
        vit__scale_##rows,                                                                        \
        vit__add_##rows,                                                                          \
        vit__rotate_##rows,                                                                       \
        vit__tanh_of_##rows,                                                                      \
        VIT__OF_PHOTOS(vit__resample_##rows)                                                      \
    }
#if VIT__HAS_I16
#    define VIT__OF_I16(item) item,
#else
#    define VIT__OF_I16(item)
#endif
#if defined(VIT_NO_PREPROCESS)
#    define VIT__OF_PHOTOS(item)
#else
#    define VIT__OF_PHOTOS(item) item,
#endif
#if VIT__SHAPES
#    define VIT__KERNEL_IF(is_here, run, rows, form, shape)                                       \
        { (is_here) ? (run) : NULL, rows, form, (is_here) ? (shape) : NULL }
#else
#    define VIT__KERNEL_IF(is_here, run, rows, form, shape) { (is_here) ? (run) : NULL, rows, form }
#endif
#define VIT__KERNEL(...) VIT__KERNEL_IF(1, __VA_ARGS__)
#define VIT__KERNEL_F16(...) VIT__KERNEL_IF(VIT__HAS_F16, __VA_ARGS__)
#define VIT__KERNEL_BF16(...) VIT__KERNEL_IF(VIT__HAS_BF16, __VA_ARGS__)
#define VIT__KERNEL_INT8(...) VIT__KERNEL_IF(VIT__HAS_INT8, __VA_ARGS__)
#define VIT__KERNEL_INT4(...) VIT__KERNEL_IF(VIT__HAS_INT4, __VA_ARGS__)
#define VIT__KERNEL_I16(...) VIT__KERNEL_IF(VIT__HAS_U8, __VA_ARGS__)
/* The tier has no kernel of its own and computes attention's integers as f32. */
#define VIT__IN_F32 ((vit__gemm_fn *)NULL, 0, VIT__FORM_F32, VIT__NO_SHAPE)
#define VIT__NO_SHAPE ((const struct vit__shape *)NULL)
#define VIT__TILE_ROWS(run, rows, form, shape) (rows)
#define VIT__TILE_FITS(panels, kernel)                                                            \
    (VIT__TILE_ROWS kernel * (panels) * 16 <= VIT__MAX_TILE_ROWS * VIT__MAX_TILE_COLS)

VIT__STATIC_ASSERT(VIT_F32 == 0 && VIT_F16 == 1 && VIT_BF16 == 2 && VIT_I8 == 3 && VIT_I4 == 4 &&
                       VIT_NUM_DTYPES == 5,
                   KERNELS_takes_a_kernel_for_each_dtype_in_order);
VIT__STATIC_ASSERT(VIT_NUM_DTYPES == 0 VIT_DTYPE_LIST(VIT__ONE_MORE), DTYPE_LIST_has_a_gap);
VIT__STATIC_ASSERT(VIT__DTYPES < 1u << VIT_NUM_DTYPES && (VIT__IS_FIXED ||
                       VIT__DTYPES == (1u << VIT_NUM_DTYPES) - 1),
                   DTYPES_lacks_a_bit_of_DTYPE_LIST);
VIT__STATIC_ASSERT(VIT_NUM_ACTIVATIONS == 0 VIT_ACTIVATION_LIST(VIT__ONE_MORE),
                   ACTIVATION_LIST_has_a_gap);
VIT__STATIC_ASSERT((int)VIT_NUM_REPRESENTATIONS ==
                       (int)VIT_REPRESENTATION_GELU + (int)VIT_NUM_ACTIVATIONS,
                   vit_representation_lacks_an_activation);
VIT__STATIC_ASSERT(VIT_NUM_PHASES == 0 VIT_PHASE_LIST(VIT__ONE_MORE), PHASE_LIST_has_a_gap);

#define VIT__LOWEST (-3.4028235e38f) /* of all finite floats */
#define VIT__NAN vit__float(0x7fc00000u)
#define VIT__EXP_ROUND (VIT__ROUND + 127.0f) /* leaves the rounded integer as an exponent */

/* A row in integers becomes NaN if it has NaN, infinity or too large a value. Builds for one model,
   whose weights are known, omit the code for that. */
#define VIT__SPREADS_NAN (!VIT__IS_FIXED)

/* The bits of a float without the sign. They compare as floats do; NaN's are the largest. */
VIT__INLINE int32_t vit__size_bits(float x) { return (int32_t)(vit__bits(x) & 0x7fffffffu); }

/* The options of an epilogue; constants where it is called. */
typedef struct vit__epilogue {
    int act, add, scale; /* scale: gamma is not NULL */
} vit__epilogue;

/* The 256 steps of a quantised row: q = x * inverse + base, in the lower bits. */
typedef struct vit__u8_steps {
    float scale, inverse, base;
} vit__u8_steps;

/* Attention of models in int8 and int4 multiplies integers. Their sums are below 2^24, and so exact
   in 32 bits and in f32, in any order. A query or a key becomes a vector of length VIT__LENGTH. By
   Cauchy-Schwarz, a product of two is at most the product of their lengths, even if rounding adds
   half the root of the depth to each. A row of the softmax adds up to VIT__WHOLE, and values are at
   most vit__value_limit. */
#define VIT__LENGTH 4060.0f /* 4096 - sqrt(4096) / 2, less a margin for rounding */
#define VIT__WHOLE 32767.0f

/* Rounding enlarges the sum of a row of n values by at most n / 2; 32800 is VIT__WHOLE with a
   margin. So a product of softmax and values stays below 2^24. */
VIT__INLINE float vit__value_limit(int n) { return (float)((1 << 24) / (32800 + n / 2)); }

/* 1 if a row can be quantised by this value; 0 for NaN. */
VIT__INLINE int vit__is_usable(float x) { return x > 1e-30f && x < 1e30f; }

/* The factor of rows that cannot be quantised: 0 for rows near zero, whose quotients would
   overflow; NaN, which the step passes on, for rows with NaN or with values of 1e30 and more. */
VIT__INLINE float vit__unusable(float x) {
    return !VIT__SPREADS_NAN || x <= 1e-30f ? 0.0f : VIT__NAN;
}

VIT__INLINE float vit__step(float factor) { return factor > 0.0f ? 1.0f / factor : factor; }

VIT__INLINE int vit__is_quantised(const vit__packing *to) {
    return VIT__IN_INTEGERS && (!VIT__IN_FLOATS || to->key_steps != NULL);
}

/* Elements in a unit of 4 bytes. */
VIT__INLINE int vit__unit_elements(vit_dtype dtype) { return dtype == VIT_F32 ? 1 : 2; }

/* Position i in the order of summation: bf16 takes the second of a pair first, as vdpbf16ps does.
   The last k of an odd depth has no partner. */
VIT__INLINE int vit__summand(vit_dtype dtype, int k, int depth) {
    return dtype == VIT_BF16 && (k ^ 1) < depth ? k ^ 1 : k;
}

/* Prefetches the next rows. A head's tokens are one row of q, k and v apart, which hardware does
   not predict. */
VIT__INLINE void vit__prefetch_rows(const float *rows, size_t ld, int count, int dim) {
    int t, d;
    for (t = 0; t < count; t++)
        for (d = 0; d < dim; d += 16) VIT__PREFETCH(rows + (size_t)t * ld + d);
}

#ifndef VIT_NO_PREPROCESS
/* Converts sixteen sums to bytes. The conversion has a loop of its own, because gcc would clamp
   bytes if the loops were one. */
VIT__INLINE void vit__clip16(uint8_t *to, const int32_t *sum) {
    int32_t t[16];
    int l;
    for (l = 0; l < 16; l++) {
        const int32_t rounded = (sum[l] + (1 << 21)) >> 22, low = rounded < 0 ? 0 : rounded;
        t[l] = low > 255 ? 255 : low;
    }
    for (l = 0; l < 16; l++) to[l] = (uint8_t)t[l];
}
#endif

/* In >>body, applies a word for one register to each register of VIT__(v): a, b and c are operands,
   X(number, word). */
#define VIT__NAME_OF(name, tier) vit__##name##_##tier
#define VIT__NAME_IN(name, tier) VIT__NAME_OF(name, tier)
#define VIT__(name) VIT__NAME_IN(name, VIT__TIER)
#define VIT__LOAD_REG(n, p) a.r##n = VIT__F_LOAD(p + n * VIT__LANES);
#define VIT__STORE_REG(n, p) VIT__F_STORE(p + n * VIT__LANES, a.r##n);
#define VIT__SPLAT_REG(n, x) a.r##n = VIT__F_SPLAT(x);
#define VIT__BITS_REG(n, x) a.r##n = VIT__F_BITS(x);
#define VIT__ALONE(n, word) a.r##n = word(a.r##n);
#define VIT__WITH_B(n, word) a.r##n = word(a.r##n, b.r##n);
#define VIT__WITH_BC(n, word) a.r##n = word(a.r##n, b.r##n, c.r##n);
#define VIT__BY_MASK(n, word) a.r##n = word(mask.r##n, a.r##n, b.r##n);
#define VIT__SHIFTED(n, word) a.r##n = word(a.r##n, by);
#define VIT__LIFT(name, word)                                                                     \
    VIT__INLINE VIT__(v) VIT__(name)(VIT__(v) a, VIT__(v) b) {                                    \
        VIT__EACH(VIT__WITH_B, word)                                                              \
        return a;                                                                                 \
    }


/* The parts of >>body that a tier stamps. */
#define VIT__STAMP_ROWS 1   /* row functions                 */
#define VIT__STAMP_FLOATS 2 /* tiles whose sums are floats   */
#define VIT__STAMP_BYTES 4  /* tiles whose sums are integers */
#define VIT__STAMP_MORE 8   /* more tiers with the same words follow */

/* ------------------------------------------------------------------------- */
/* >>tiles                                                                   */
/* ------------------------------------------------------------------------- */

/* A matrix product is made of tiles, whose sums stay in registers: `height` rows times `width`
   registers of columns. Every sum is a named variable, because gcc 12 and clang 14 spill arrays of
   them. In plain C, a tile is

      for (k = 0; k < depth; k++)
          for (r = 0; r < rows; r++)
              for (l = 0; l < columns; l++)
                  c[r][l] = fma(a[r][k], w[k][l], c[r][l]);

   float_tile, byte_tile and group_tile in >>body are such loops. The compiler inlines them into
   functions of one kind, height and width, and drops the code for all others. A shape lists
   these functions. */

#if VIT__SIMD

/* How a step of the inner loop multiplies. */
enum {
    VIT__TILE_F32,   /* f32, one k a step                                                    */
    VIT__TILE_F16,   /* f16, widened in the loop                                             */
    VIT__TILE_BF16,  /* bf16, widened in the loop, k = 1, 0, 3, 2, ...                       */
    VIT__TILE_MORE,  /* f32, but sums continue from the tile                                 */
    VIT__TILE_ODD,   /* as MORE, in bf16's order                                             */
    VIT__TILE_DOT,   /* a pair of bf16, the second first                                     */
    VIT__TILE_DOT16, /* a pair of 16-bit integers                                            */
    VIT__TILE_DOT8,  /* a quad of bytes                                                      */
    VIT__TILE_SPLIT, /* a quad of bytes, widened to 16 bits in the loop                      */
    VIT__TILE_WIDE,  /* a quad of bytes, weights already widened to 16 bits                  */
    VIT__TILE_TWO    /* two quads, added in 16 bits                                          */
};

typedef void vit__tile_fn(float *tile, const vit__operands *o, const unsigned char *p,
                          size_t stride);

#    if VIT__SHAPES

/* The tiles of a kernel. If weights must be widened first, the kernel widens `block` steps of the
   inner index at a time, for all rows of a tile. */
typedef struct vit__shape {
    vit_dtype dtype;
    int height, panels;                /* size of a tile in registers                      */
    vit__tile_fn *full, *half, *one;   /* for height rows; for up to half (or NULL); for one */
    vit__tile_fn *narrow;              /* for one panel, if the others take more           */
    int block, size;                   /* steps of the inner index; bytes of a row's element */
                                       /* block 0: sums start from zero, not from the tile */
    void (*widen)(void *to, const unsigned char *panel, int k, int count);
    void (*finish)(float *tile, const vit__operands *o, const unsigned char *panel);
} vit__shape;

/* Shapes with one function for all heights. */
#    define VIT__SHAPE(dtype, height, run)                                                        \
        { dtype, height, 1, run, NULL, run, NULL, 0, 0, NULL, NULL }
#    define VIT__MORE_SHAPE(dtype, height, run)                                                   \
        { dtype, height, 1, run, NULL, run, NULL, 1, 0, NULL, NULL }
#    define VIT__WIDE_SHAPE(dtype, height, run, size, widen, finish)                              \
        { dtype, height, 1, run, NULL, run, NULL, (dtype) == VIT_I4 ? VIT__GROUPS_WIDE * 32 : 128, \
          size, widen, finish }

/* Widened weights of a panel, few enough to stay in the L1 cache; those of int4 have scales in
   front. */
#    define VIT__GROUPS_WIDE 8
#    define VIT__GROUPS_HEADER (VIT__GROUPS_WIDE * 128)
typedef struct VIT__ALIGNED_64 vit__groups {
    float scale[VIT__GROUPS_WIDE * 16];
    int32_t base[VIT__GROUPS_WIDE * 16];          /* FORM_S8: 128 times the sum of weights */
    unsigned char quads[VIT__GROUPS_WIDE * 1024]; /* 8 or 16 bits a weight */
} vit__groups;

/* The function for this many rows and panels. */
VIT__INLINE vit__tile_fn *vit__tile_for(const vit__shape *shape, int rows, int panels) {
    if (panels < shape->panels) return shape->narrow;
    if (rows == 1) return shape->one;
    return shape->half && rows <= shape->height / 2 ? shape->half : shape->full;
}

/* All rows times some panels, in parts as equal as possible. */
static void vit__tile_rows(const vit__shape *shape, float *tile, const vit__operands *o,
                           const unsigned char *p, size_t stride, int panels) {
    int parts = vit__ceil_div(o->rows, shape->height), left = o->rows;
    vit__operands part = *o;
    for (; parts; parts--, left -= part.rows) {
        part.rows = vit__ceil_div(left, parts);
        vit__tile_for(shape, part.rows, panels)(tile, &part, p, stride);
        part.a += (size_t)part.rows * o->lda;
        tile += (size_t)part.rows * o->ldt;
    }
}

static void vit__tile_blocks(const vit__shape *shape, float *tile, const vit__operands *o,
                             const unsigned char *panel, size_t stride, int panels) {
    vit__groups wide[VIT__AVX512 ? 3 : 1];
    const int depth = shape->dtype == VIT_I4 ? vit__round_up(o->depth, 32) : o->depth;
    vit__operands part = *o;
    int k, n, r;
    for (r = 0; r < o->rows; r++)
        memset(tile + (size_t)r * o->ldt, 0, (size_t)panels * 16 * sizeof(float));
    if (!shape->widen) vit__tile_rows(shape, tile, o, panel, stride, panels);
    for (k = 0; k < depth && shape->widen; k += part.depth) {
        part.depth = vit__min(shape->block, depth - k);
        for (n = 0; n < panels; n++)
            shape->widen(&wide[n], panel + (size_t)n * stride, k, part.depth);
        vit__tile_rows(shape, tile, &part, (const unsigned char *)wide, sizeof wide[0], panels);
        part.a += part.depth * shape->size;
    }
    for (n = 0; n < panels && shape->finish; n++)
        shape->finish(tile + 16 * n, o, panel + (size_t)n * stride);
}

/* Takes as many panels at once as a tile holds, then the rest one by one. */
static void vit__gemm_shape(const vit__shape *shape, float *tile, const vit__operands *o) {
    const size_t stride = (size_t)vit__panel_bytes(shape->dtype, o->depth);
    const unsigned char *p = o->panel;
    int left = o->panels, panels;
    for (; left; left -= panels, tile += 16 * panels, p += (size_t)panels * stride) {
        panels = left < shape->panels ? 1 : shape->panels;
        if (shape->block) vit__tile_blocks(shape, tile, o, p, stride, panels);
        else if (o->rows > shape->height) vit__tile_rows(shape, tile, o, p, stride, panels);
        else vit__tile_for(shape, o->rows, panels)(tile, o, p, stride);
    }
}

static void vit__gemm_tiles(float *tile, const vit__operands *o) {
    vit__gemm_shape(o->shape, tile, o);
}

#    endif /* VIT__SHAPES */

/* The rows of a tile in >>body: X(row). */
#    define VIT__TILE_HEIGHT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#    define VIT__TILE_ROW(r)                                                                      \
        const unsigned char *const a##r = a + (size_t)(r < rows ? r : rows - 1) * lda;            \
        float *const to##r = tile + (size_t)(r < rows ? r : rows - 1) * ldt;
#    define VIT__SUM_FROM_TILE(r, n)                                                              \
        ((kind == VIT__TILE_MORE || kind == VIT__TILE_ODD) && r < height && n < width             \
             ? VIT__F_LOAD(to##r + n * VIT__LANES)                                                \
             : VIT__F_SPLAT(0.0f))
#    define VIT__FLOAT_SUMS(r)                                                                    \
        VIT__RF c##r##0 = VIT__SUM_START(r, 0), c##r##1 = VIT__SUM_START(r, 1);                   \
        VIT__RF c##r##2 = VIT__SUM_START(r, 2), c##r##3 = VIT__SUM_START(r, 3);
#    define VIT__FLOAT_ROW(r)                                                                     \
        if (r < height) {                                                                         \
            VIT__X x;                                                                             \
            VIT__X_LOAD(x, a##r + 4 * (size_t)k)                                                  \
            VIT__REUSE(w)                                                                         \
            VIT__MAC(c##r##0, x, VIT__W(0))                                                       \
            if (width > 1) VIT__MAC(c##r##1, x, VIT__W(1))                                        \
            if (width > 2) VIT__MAC(c##r##2, x, VIT__W(2))                                        \
            if (width > 3) VIT__MAC(c##r##3, x, VIT__W(3))                                        \
        }
#    define VIT__FLOAT_STORE(r)                                                                   \
        if (r < height) VIT__F_STORE(to##r, c##r##0);                                             \
        if (r < height && width > 1) VIT__F_STORE(to##r + VIT__LANES, c##r##1);                   \
        if (r < height && width > 2) VIT__F_STORE(to##r + 2 * VIT__LANES, c##r##2);               \
        if (r < height && width > 3) VIT__F_STORE(to##r + 3 * VIT__LANES, c##r##3);
#    define VIT__BYTE_SUMS(r)                                                                     \
        VIT__ACC c##r##0 = VIT__ACC_START(r, 0);                                                  \
        VIT__ACC c##r##1 = VIT__ACC_START(r, 1);                                                  \
        VIT__ACC c##r##2 = VIT__ACC_START(r, 2);                                                  \
        VIT__ACC c##r##3 = VIT__ACC_START(r, 3);
#    define VIT__BYTE_MAC(r, n)                                                                   \
        c##r##n = VIT__(byte_step)(kind, c##r##n, x, y, VIT__WI(n), VIT__U_OF(n));
#    define VIT__BYTE_ROW(r)                                                                      \
        if (r < height) {                                                                         \
            VIT__XI x, y;                                                                         \
            VIT__XI_LOAD(x, a##r + at)                                                            \
            y = x;                                                                                \
            if (kind == VIT__TILE_TWO) VIT__XI_LOAD(y, a##r + at + 4)                             \
            VIT__SPLIT(x, y)                                                                      \
            VIT__REUSE(w)                                                                         \
            VIT__BYTE_MAC(r, 0)                                                                   \
            if (width > 1) VIT__BYTE_MAC(r, 1)                                                    \
            if (width > 2) VIT__BYTE_MAC(r, 2)                                                    \
            if (width > 3) VIT__BYTE_MAC(r, 3)                                                    \
        }
#    define VIT__BYTE_PUT(r, n)                                                                   \
        VIT__(byte_store)(kind, to##r + n * VIT__LANES, c##r##n, a##r, tail + VIT__COL(n, 4), o,  \
                          stride);
#    define VIT__BYTE_STORE(r)                                                                    \
        if (r < height) VIT__BYTE_PUT(r, 0)                                                       \
        if (r < height && width > 1) VIT__BYTE_PUT(r, 1)                                          \
        if (r < height && width > 2) VIT__BYTE_PUT(r, 2)                                          \
        if (r < height && width > 3) VIT__BYTE_PUT(r, 3)
#    define VIT__CHAIN(r, n)                                                                      \
        (r < height && n < width ? VIT__CHAIN_LOAD(to##r + n * VIT__LANES) : VIT__F_SPLAT(0.0f))
#    define VIT__CHAINS(r)                                                                        \
        VIT__RF s##r##0 = VIT__CHAIN(r, 0), s##r##1 = VIT__CHAIN(r, 1);                           \
        VIT__RF s##r##2 = VIT__CHAIN(r, 2), s##r##3 = VIT__CHAIN(r, 3);
#    define VIT__GROUP_SUMS(r)                                                                    \
        VIT__ACC c##r##0 = VIT__GROUP_START(0);                                                   \
        VIT__ACC c##r##1 = VIT__GROUP_START(1);                                                   \
        VIT__ACC c##r##2 = VIT__GROUP_START(2);                                                   \
        VIT__ACC c##r##3 = VIT__GROUP_START(3);
#    define VIT__GROUP_MAC(r, n)                                                                  \
        s##r##n = VIT__F_FMA(VIT__I_TO_F(VIT__GROUP_SUM(c##r##n, n)),                             \
                             VIT__SCALE_LOAD((const float *)(const void *)(scale +                \
                                                                           VIT__COL(n, 4))),      \
                             s##r##n);
#    define VIT__GROUP_SCALE(r)                                                                   \
        if (r < height) VIT__GROUP_MAC(r, 0)                                                      \
        if (r < height && width > 1) VIT__GROUP_MAC(r, 1)                                         \
        if (r < height && width > 2) VIT__GROUP_MAC(r, 2)                                         \
        if (r < height && width > 3) VIT__GROUP_MAC(r, 3)
#    define VIT__CHAINS_STORE(r)                                                                  \
        if (r < height) { VIT__CHAIN_STORE(to##r, s##r##0); }                                     \
        if (r < height && width > 1) { VIT__CHAIN_STORE(to##r + VIT__LANES, s##r##1); }           \
        if (r < height && width > 2) { VIT__CHAIN_STORE(to##r + 2 * VIT__LANES, s##r##2); }       \
        if (r < height && width > 3) { VIT__CHAIN_STORE(to##r + 3 * VIT__LANES, s##r##3); }

/* Defines the function of one tile, from >>body. */
#    define VIT__TILE_FN(name, tile_of, tier, kind, height, width)                                \
        VIT__STATIC_ASSERT((height) <= VIT__MAX_TILE_ROWS, rows_of_##name);                       \
        VIT__NOINLINE static void name(float *tile, const vit__operands *o,                       \
                                       const unsigned char *p, size_t stride) {                   \
            vit__##tile_of##_##tier(kind, height, width, tile, o, p, stride);                     \
        }

/* Defines tiles of two or four sizes and the shape that lists them: vit__shape_<name>. */
#    define VIT__TILES_2(name, dtype, tile_of, tier, kind, height, width)                         \
        VIT__TILE_FN(vit__tile_##name, tile_of, tier, kind, height, width)                        \
        VIT__TILE_FN(vit__tile_##name##_1, tile_of, tier, kind, 1, width)                         \
        static const vit__shape vit__shape_##name = {                                             \
            dtype, height, 1, vit__tile_##name, NULL, vit__tile_##name##_1, NULL, 0, 0, NULL, NULL \
        };
#    define VIT__TILES_4(name, dtype, tile_of, tier, kind)                                        \
        VIT__TILE_FN(vit__tile_##name, tile_of, tier, kind, 8, 3)                                 \
        VIT__TILE_FN(vit__tile_##name##_4, tile_of, tier, kind, 4, 3)                             \
        VIT__TILE_FN(vit__tile_##name##_1, tile_of, tier, kind, 1, 3)                             \
        VIT__TILE_FN(vit__tile_##name##_x16, tile_of, tier, kind, 8, 1)                           \
        static const vit__shape vit__shape_##name = {                                             \
            dtype, 8, 3, vit__tile_##name, vit__tile_##name##_4, vit__tile_##name##_1,            \
            vit__tile_##name##_x16, 0, 0, NULL, NULL                                              \
        };

/* Computes a panel as two halves, each by a half tile of int8. */
#    define VIT__HALF_TILES(name, half)                                                           \
        static void name(float *tile, const vit__operands *o, const unsigned char *p,             \
                         size_t stride) {                                                         \
            half(tile, o, p, stride);                                                             \
            half(tile + 8, o, p + 32, stride);                                                    \
        }

/* Prefetches the next panels; AVX2 and AVX-512 define it. */
#    if VIT__AVX2
#        define VIT__AHEAD_OF(o, p)                                                               \
            ((o)->ahead ? (o)->ahead + (size_t)((p) - (o)->panel) / 32 : (p))
#    else
#        define VIT__AHEAD_OF(o, p) (p)
#    endif

/* Corrects a group's sums for signed inputs, which are 128 less. A sum of 8 quads' bytes fits a
   byte: 8 * 8 < 128. */
VIT__INLINE void vit__base_i4(int32_t *base, const unsigned char *quads) {
    signed char sum[64] = { 0 };
    int i, l;
    for (i = 0; i < 8; i++)
        for (l = 0; l < 64; l++) sum[l] = (signed char)(sum[l] + (signed char)quads[64 * i + l]);
    for (l = 0; l < 16; l++)
        base[l] = 128 * (sum[4 * l] + sum[4 * l + 1] + sum[4 * l + 2] + sum[4 * l + 3]);
}

#endif /* VIT__SIMD */

#endif /* end of the part that needs VIT_IMPLEMENTATION */

/* ------------------------------------------------------------------------- */
/* >>body                                                                    */
/* ------------------------------------------------------------------------- */

/* Every kernel, once. The first pass skips this section; >>words includes it again for each tier,
   after defining the tier's words: the types of its registers and the operations on them.
   VIT__STAMP selects the parts. VIT__(name) is the name of a function in this tier, such as
   vit__softmax_avx2.

   VIT__(v) holds VIT__WIDE floats in VIT__REGS registers: 16, or one in plain C. Every tier sums
   a row in 16 lanes: element i is added to lane i % 16, and vit__sum16's tree adds the lanes. */

#if defined(VIT__TIER)

/* Words derived from others. */
#if defined(VIT__WIDE_BYTES)
#    define VIT__SPLIT(x, y)                                                                     \
        if (kind == VIT__TILE_SPLIT || kind == VIT__TILE_WIDE) y = VIT__ODD(x), x = VIT__EVEN(x);
#    define VIT__ACC_START(r, n)                                                                  \
        (kind == VIT__TILE_WIDE && r < height && n < width ? VIT__I_LOAD(to##r + n * VIT__LANES)  \
                                                           : VIT__I_ZERO())
#else
#    define VIT__SPLIT(x, y)
#    define VIT__ACC_START(r, n) VIT__ACC_ZERO
#endif
#ifndef VIT__GROUP_START
#    define VIT__GROUP_START(n) VIT__ACC_ZERO
#endif
#ifndef VIT__GROUP_SUM
#    define VIT__GROUP_SUM(c, n) VIT__ACC_SUM(c)
#endif

#if VIT__STAMP & VIT__STAMP_ROWS

/* --- vectors ---------------------------------------------------------------------- */

#define VIT__WIDE (VIT__LANES == 1 ? 1 : 16)

#if VIT__LANES == 4
typedef struct VIT__(v) { VIT__RF r0, r1, r2, r3; } VIT__(v);
#    define VIT__EACH(X, word) X(0, word) X(1, word) X(2, word) X(3, word)
#    define VIT__JOIN(op, v) op(op(v.r0, v.r2), op(v.r1, v.r3))
#elif VIT__LANES == 8
typedef struct VIT__(v) { VIT__RF r0, r1; } VIT__(v);
#    define VIT__EACH(X, word) X(0, word) X(1, word)
#    define VIT__JOIN(op, v) op(v.r0, v.r1)
#else
typedef struct VIT__(v) { VIT__RF r0; } VIT__(v);
#    define VIT__EACH(X, word) X(0, word)
#    define VIT__JOIN(op, v) (v.r0)
#endif

VIT__INLINE VIT__(v) VIT__(load)(const float *p) {
    VIT__(v) a;
    VIT__EACH(VIT__LOAD_REG, p)
    return a;
}
VIT__INLINE void VIT__(store)(float *p, VIT__(v) a) { VIT__EACH(VIT__STORE_REG, p) }
VIT__INLINE VIT__(v) VIT__(splat)(float x) {
    VIT__(v) a;
    VIT__EACH(VIT__SPLAT_REG, x)
    return a;
}
VIT__INLINE VIT__(v) VIT__(bits)(uint32_t x) { /* the same bits in every lane */
    VIT__(v) a;
    VIT__EACH(VIT__BITS_REG, x)
    return a;
}
VIT__LIFT(plus, VIT__F(add))
VIT__LIFT(sub, VIT__F(sub))
VIT__LIFT(mul, VIT__F(mul))
VIT__LIFT(div, VIT__F(div))
VIT__LIFT(min, VIT__F(min))   /* a < b ? a : b */
VIT__LIFT(max, VIT__F(max))   /* a > b ? a : b */
VIT__LIFT(and, VIT__F(and))
VIT__LIFT(or, VIT__F(or))
VIT__LIFT(iadd, VIT__F_IADD) /* as integers */
VIT__INLINE VIT__(v) VIT__(fmadd)(VIT__(v) a, VIT__(v) b, VIT__(v) c) {
    VIT__EACH(VIT__WITH_BC, VIT__F_FMA)
    return a;
}
VIT__INLINE VIT__(v) VIT__(select)(VIT__(v) mask, VIT__(v) a, VIT__(v) b) {
    VIT__EACH(VIT__BY_MASK, VIT__F_SELECT)
    return a;
}
VIT__INLINE VIT__(v) VIT__(nan)(VIT__(v) a) { /* all bits set where a is NaN, otherwise none */
    VIT__EACH(VIT__ALONE, VIT__F_NAN)
    return a;
}
VIT__INLINE VIT__(v) VIT__(shl)(VIT__(v) a, int by) {
    VIT__EACH(VIT__SHIFTED, VIT__F_SHL)
    return a;
}
VIT__INLINE VIT__(v) VIT__(shr)(VIT__(v) a, int by) { /* shifts in zeros */
    VIT__EACH(VIT__SHIFTED, VIT__F_SHR)
    return a;
}

/* a * b + c, where c is a constant for every lane. */
VIT__INLINE VIT__(v) VIT__(horner)(VIT__(v) a, VIT__(v) b, float c) {
    return VIT__(fmadd)(a, b, VIT__(splat)(c));
}

/* Loads elements in the file's byte order. */
VIT__INLINE VIT__(v) VIT__(load_stored)(const float *p) {
#if VIT__WIDE == 1
    return VIT__(splat)(vit__stored(p));
#else
    return VIT__(load)(p);
#endif
}
VIT__INLINE void VIT__(store_as_stored)(uint32_t *p, VIT__(v) a) {
#if VIT__WIDE == 1
    *p = vit__le32(vit__bits(a.r0));
#else
    VIT__(store)((float *)(void *)p, a);
#endif
}

VIT__NOINLINE VIT__ROW VIT__(v) VIT__(load_some)(const float *p, int left) {
    float x[16] = { 0 };
    memcpy(x, p, (size_t)left * sizeof *x);
    return VIT__(load)(x);
}
VIT__NOINLINE VIT__ROW void VIT__(store_some)(float *p, VIT__(v) a, int left) {
    float x[16];
    VIT__(store)(x, a);
    memcpy(p, x, (size_t)left * sizeof *x);
}

/* The row's next elements; `left` of them remain, at least one, and zeros follow. */
VIT__INLINE VIT__(v) VIT__(get)(const float *p, int left) {
    return VIT__WIDE > 1 && left < 16 ? VIT__(load_some)(p, left) : VIT__(load)(p);
}
VIT__INLINE VIT__(v) VIT__(get_stored)(const float *p, int left) {
    return VIT__WIDE > 1 ? VIT__(get)(p, left) : VIT__(load_stored)(p);
}
VIT__INLINE void VIT__(put)(float *p, VIT__(v) a, int left) {
    if (VIT__WIDE > 1 && left < 16) VIT__(store_some)(p, a, left);
    else VIT__(store)(p, a);
}

/* Stores the lower halves of the lanes in the file's byte order. */
VIT__INLINE void VIT__(put_halves)(uint16_t *p, VIT__(v) a, int left) {
#if VIT__WIDE > 1
    uint16_t half[16];
    if (left >= 16) {
        VIT__STORE_HALVES(p, a)
        return;
    }
    VIT__STORE_HALVES(half, a)
    memcpy(p, half, (size_t)left * sizeof *p);
#else
    (void)left;
    *p = vit__le16((uint16_t)(vit__bits(a.r0) & 0xffffu));
#endif
}

/* The first `left` lanes of a; the other lanes come from `other`. */
VIT__INLINE VIT__(v) VIT__(first)(VIT__(v) a, int left, VIT__(v) other) {
#if VIT__WIDE > 1
    /* Selects lanes by and and or, which the memory sanitizer follows, unlike vblendvps. */
    static const int32_t masks[48] = {
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, /**/
        0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  /**/
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    };
    const float *mask;
    if (left >= 16) return a;
    mask = (const float *)(const void *)(masks + 16 - left);
    return VIT__(or)(VIT__(and)(a, VIT__(load)(mask)), VIT__(and)(other, VIT__(load)(mask + 16)));
#else
    (void)left, (void)other;
    return a;
#endif
}

/* Sums of a row, lane by lane. */
typedef struct VIT__(lanes) { VIT__(v) of[16 / VIT__WIDE]; } VIT__(lanes);

VIT__INLINE void VIT__(clear)(VIT__(lanes) *lane) {
    int i;
    for (i = 0; i < 16 / VIT__WIDE; i++) lane->of[i] = VIT__(splat)(0.0f);
}

#if VIT__WIDE == 1
#    define VIT__LANE(i) ((i) % 16) /* of element i */
VIT__INLINE float VIT__(sum)(VIT__(lanes) *lane) { return vit__sum16(&lane->of[0].r0); }
VIT__INLINE float VIT__(highest)(VIT__(v) a) { return a.r0; }
VIT__INLINE float VIT__(lowest)(VIT__(v) a) { return a.r0; }
VIT__INLINE int VIT__(any)(VIT__(v) mask) { return (int)vit__bits(mask.r0); }
#else
#    define VIT__LANE(i) 0
#    define VIT__FOLD(op, v)                                                                      \
        VIT__RF x = VIT__JOIN(op, v);                                                             \
        VIT__SWAPS(op, x)                                                                         \
        return VIT__F_FIRST(x);
VIT__INLINE float VIT__(sum)(VIT__(lanes) *lane) { VIT__FOLD(VIT__F(add), lane->of[0]) }
VIT__INLINE float VIT__(highest)(VIT__(v) a) { VIT__FOLD(VIT__F(max), a) }
VIT__INLINE float VIT__(lowest)(VIT__(v) a) { VIT__FOLD(VIT__F(min), a) }
VIT__INLINE int VIT__(any)(VIT__(v) mask) {
    float x[16];
    int i, any = 0;
    VIT__(store)(x, mask);
    for (i = 0; i < 16; i++) any |= (int)vit__bits(x[i]);
    return any;
}
#endif

/* --- functions -------------------------------------------------------------------- */

/* exp(x) for x <= 88: x = n ln 2 + r, |r| <= ln 2 / 2, and a polynomial for exp(r) (coefficients of
   Cephes' expf). The error is at most 0.89 ulp for x >= -87. tests/test_math.c measures this and
   the bounds below. Below -87 the result stays at exp(-87) = 1.6e-38, which vanishes in any sum
   with a 1. */
VIT__INLINE VIT__(v) VIT__(exp_below)(VIT__(v) x) {
    VIT__(v) r = VIT__(max)(VIT__(splat)(-87.0f), x); /* NaN passes through */
    const VIT__(v) shifted = VIT__(horner)(r, VIT__(splat)(1.44269504f), VIT__EXP_ROUND);
    const VIT__(v) n = VIT__(sub)(shifted, VIT__(splat)(VIT__EXP_ROUND));
    VIT__(v) p = VIT__(splat)(1.9875691500e-4f);
    /* ln 2 is split in two parts. The first has 9 bits and n has 7, so their product is exact with
       and without fma. */
    r = VIT__(fmadd)(n, VIT__(splat)(-0.693359375f), r);
    r = VIT__(fmadd)(n, VIT__(splat)(2.12194440e-4f), r);
    p = VIT__(horner)(p, r, 1.3981999507e-3f);
    p = VIT__(horner)(p, r, 8.3334519073e-3f);
    p = VIT__(horner)(p, r, 4.1665795894e-2f);
    p = VIT__(horner)(p, r, 1.6666665459e-1f);
    p = VIT__(horner)(p, r, 5.0000001201e-1f);
    p = VIT__(horner)(p, r, 1.0f);
    p = VIT__(horner)(p, r, 1.0f);
    /* The low bits of shifted are n + 127, from 1 to 254. Shifted into the exponent, they are 2^n.
       The product is exact, so fusing it into a sum changes nothing. */
    return VIT__(mul)(p, VIT__(shl)(shifted, 23));
}

VIT__INLINE VIT__(v) VIT__(exp)(VIT__(v) x) {
    return VIT__(exp_below)(VIT__(min)(VIT__(splat)(88.0f), x));
}

/* torch.nn.GELU, exact form: x / 2 * (1 + erf(x / sqrt 2)). erf(z) = z P(z^2) / Q(z^2) on |z| <=
   3.92, beyond which it rounds to 1. The minimax fit is our own, with a relative error of 1.9e-8
   before rounding; gelu is within 2.2e-7 |x|. At the end of the range the quotient is 1 to the last
   bit, with and without fma. */
VIT__INLINE VIT__(v) VIT__(gelu)(VIT__(v) x) {
    const VIT__(v) one = VIT__(splat)(1.0f);
    const VIT__(v) t = VIT__(mul)(x, VIT__(splat)(0.70710678f));
    const VIT__(v) size = VIT__(and)(t, VIT__(bits)(0x7fffffffu));
    const VIT__(v) sign = VIT__(and)(t, VIT__(bits)(0x80000000u));
    const VIT__(v) z = VIT__(or)(VIT__(min)(size, VIT__(splat)(3.9199991f)), sign);
    const VIT__(v) u = VIT__(mul)(z, z);
    VIT__(v) p = VIT__(splat)(2.0500922e-6f), q = VIT__(splat)(3.8091803e-5f);
    p = VIT__(horner)(p, u, 2.8488340e-4f);
    p = VIT__(horner)(p, u, 3.7656259e-3f);
    p = VIT__(horner)(p, u, 5.2748751e-2f);
    p = VIT__(horner)(p, u, 1.9040661e-1f);
    p = VIT__(horner)(p, u, 1.1283791f);
    q = VIT__(horner)(q, u, 1.1625387e-3f);
    q = VIT__(horner)(q, u, 1.4969233e-2f);
    q = VIT__(horner)(q, u, 1.1410918e-1f);
    q = VIT__(horner)(q, u, 5.0207621e-1f);
    q = VIT__(horner)(q, u, 1.0f);
    p = VIT__(plus)(one, VIT__(div)(VIT__(mul)(z, p), q));
    return VIT__(mul)(VIT__(mul)(x, VIT__(splat)(0.5f)), p);
}

/* All activations. gelu_tanh(x) is x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3). */
VIT__INLINE VIT__(v) VIT__(activate)(vit_activation activation, VIT__(v) x) {
    VIT__(v) s = x;
    switch (vit__known(activation)) {
    case VIT_GELU: return VIT__(gelu)(x);
    case VIT_RELU:
        s = VIT__(splat)(0.0f);
#if VIT__WIDE == 1 && defined(__wasm__) /* clang 14 makes f32.max of a constant: -0 becomes 0 */
        VIT__HIDE(s.r0)
#endif
        return VIT__(max)(s, x);
    case VIT_GELU_TANH:
        s = VIT__(horner)(VIT__(mul)(x, x), VIT__(splat)(0.0713548163f), 1.5957691216f);
        s = VIT__(mul)(x, s);
        break;
    case VIT_QUICK_GELU: s = VIT__(mul)(VIT__(splat)(1.702f), x); break;
    case VIT_SILU: break;
    case VIT_NUM_ACTIVATIONS: break;
    }
    s = VIT__(exp)(VIT__(mul)(s, VIT__(splat)(-1.0f)));
    return VIT__(div)(x, VIT__(plus)(VIT__(splat)(1.0f), s));
}

/* tanh(x) = (1 - e) / (1 + e) with e = exp(-2 |x|). Near zero, where that cancels, its series is in
   error by at most x^9 / 50. The error is at most 6.2 ulp. */
VIT__INLINE float VIT__(exp_of)(float x) {
    float y[VIT__WIDE];
    VIT__(store)(y, VIT__(exp)(VIT__(splat)(x)));
    return y[0];
}
VIT__ROW float VIT__(tanh_of)(float x) {
    const int is_needed = VIT__FIXED_OR(representation_dim, 1) != 0;
    const float size = vit__float(vit__bits(x) & 0x7fffffffu), u = x * x;
    const float e = VIT__(exp_of)(-2.0f * size), ratio = (1.0f - e) / (1.0f + e);
    float series = VIT__F_FMA1(-17.0f / 315.0f, u, 2.0f / 15.0f);
    if (!is_needed) return x;
    series = VIT__F_FMA1(series, u, -1.0f / 3.0f);
    series = VIT__F_FMA1(series, u, 1.0f) * x;
    if (size < 0.25f) return series;
    return x < 0 ? -ratio : ratio;
}

/* --- between matrix products ------------------------------------------------------ */

/* The epilogue of some elements x; c holds the values they are added to. */
VIT__INLINE VIT__(v) VIT__(finish)(vit__epilogue e, VIT__(v) x, VIT__(v) bias, VIT__(v) gamma,
                                   VIT__(v) c) {
    x = VIT__(plus)(x, bias);
    if (e.act) x = VIT__(activate)(VIT__ACTIVATION(e.act), x);
    if (e.add) x = e.scale ? VIT__(fmadd)(x, gamma, c) : VIT__(plus)(x, c);
    return x;
}

/* Elements i to i + left of a row, at most a vector. */
VIT__INLINE void VIT__(output_step)(vit__epilogue e, const vit__output *out, const float *x,
                                    float *c, int i, int left) {
    const VIT__(v) zero = VIT__(splat)(0.0f);
    const VIT__(v) bias = out->bias ? VIT__(get_stored)(out->bias + i, left) : zero;
    const VIT__(v) gamma = e.scale ? VIT__(get_stored)(out->gamma + i, left) : zero;
    const VIT__(v) before = e.add ? VIT__(get)(c + i, left) : zero;
    VIT__(put)(c + i, VIT__(finish)(e, VIT__(get)(x + i, left), bias, gamma, before), left);
}

VIT__NOINLINE VIT__ROW void VIT__(output_tail)(vit__epilogue e, const vit__output *out,
                                               const float *x, float *c, int i, int left) {
    VIT__(output_step)(e, out, x, c, i, left);
}

/* Runs while the tile is still in the L1 cache. */
VIT__INLINE void VIT__(output_rows)(vit__epilogue e, const vit__output *out,
                                    const vit__tile *tile) {
    const int in_place = VIT__WIDE == 1 || !VIT__SMALL; /* otherwise only the tail copies */
    const float *x = tile->data;
    float *c = out->c;
    int r, i;
    for (r = 0; r < tile->rows; r++, x += tile->ld, c += out->ldc) {
        for (i = 0; in_place && i + VIT__WIDE <= tile->cols; i += VIT__WIDE)
            VIT__(output_step)(e, out, x, c, i, VIT__WIDE);
        for (; VIT__WIDE > 1 && i < tile->cols; i += VIT__WIDE)
            VIT__(output_tail)(e, out, x, c, i, tile->cols - i);
    }
}

/* Each combination that occurs has its own loops, except in plain C and in builds for size. */
VIT__ROW void VIT__(output)(const vit__output *out, const vit__tile *tile) {
    vit__epilogue e = { VIT__NO_ACT, 0, 0 };
    if (VIT__WIDE == 1 || VIT__SMALL) {
        e.act = out->act;
        e.add = out->add;
        e.scale = out->gamma != NULL;
        VIT__(output_rows)(e, out, tile);
    } else if (out->add && out->gamma) {
        e.add = e.scale = 1;
        VIT__(output_rows)(e, out, tile);
    } else if (out->add) {
        e.add = 1;
        VIT__(output_rows)(e, out, tile);
    } else if (!out->act) {
        VIT__(output_rows)(e, out, tile);
    } else {
        e.act = out->act;
        VIT__(output_rows)(e, out, tile);
    }
}

/* The hidden row of a gated MLP: x[i] = act(x[i]) * x[n + i], i < n. */
VIT__ROW void VIT__(gate)(vit_activation activation, float *x, int n) {
    vit__output out = { NULL, 0, NULL, VIT__NO_ACT, 0, NULL };
    vit__tile tile = { NULL, 0, 1, 0 };
    int i;
    if (!VIT__FIXED_OR(has_gated_mlp, 1)) return;
    out.act = VIT__ACT(activation);
    tile.data = out.c = x;
    tile.cols = n;
    VIT__(output)(&out, &tile);
    for (i = 0; i < n; i += VIT__WIDE) {
        const VIT__(v) a = VIT__(get)(x + i, n - i), b = VIT__(get)(x + n + i, n - i);
        VIT__(put)(x + i, VIT__(mul)(a, b), n - i);
    }
}

/* torch.nn.LayerNorm over one row: (x - mean) / sqrt(var + eps) * weight + bias; or RMSNorm, which
   has neither mean nor bias. y may be x. The row is read three times, because the mean of squares
   minus the square of the mean cancels where the mean is large. */
VIT__INLINE void VIT__(norm_row)(int rms, float *y, const float *x, const vit__norm_spec *norm) {
    const VIT__(v) zero = VIT__(splat)(0.0f);
    const int dim = norm->dim;
    VIT__(lanes) lane;
    VIT__(v) mean = zero, factor;
    int i;
    VIT__(clear)(&lane);
    if (!rms) {
        for (i = 0; i < dim; i += VIT__WIDE)
            lane.of[VIT__LANE(i)] = VIT__(plus)(lane.of[VIT__LANE(i)], VIT__(get)(x + i, dim - i));
        mean = VIT__(splat)(VIT__(sum)(&lane) / (float)dim);
        VIT__(clear)(&lane);
    }
    for (i = 0; i < dim; i += VIT__WIDE) {
        VIT__(v) d = VIT__(get)(x + i, dim - i);
        if (!rms) d = VIT__(first)(VIT__(sub)(d, mean), dim - i, zero);
        lane.of[VIT__LANE(i)] = VIT__(fmadd)(d, d, lane.of[VIT__LANE(i)]);
    }
    factor = VIT__(splat)(1.0f / vit__sqrt(VIT__(sum)(&lane) / (float)dim + norm->eps));
    for (i = 0; i < dim; i += VIT__WIDE) {
        const int left = dim - i;
        const VIT__(v) bias = rms ? zero : VIT__(get_stored)(norm->bias + i, left);
        VIT__(v) d = VIT__(get)(x + i, left);
        if (!rms) d = VIT__(sub)(d, mean);
        d = VIT__(mul)(d, factor);
        VIT__(put)(y + i, VIT__(fmadd)(d, VIT__(get_stored)(norm->weight + i, left), bias), left);
    }
}

VIT__ROW void VIT__(norm)(float *y, const float *x, const vit__norm_spec *norm) {
    const int always = VIT__FIXED_OR(norm_type, 1) == VIT_LAYER_NORM &&
                       !VIT__FIXED_OR(has_diff_attn, 1);
    if (always || norm->bias) VIT__(norm_row)(0, y, x, norm);
    else VIT__(norm_row)(1, y, x, norm);
}

/* x = exp(scale * steps * x - max), with steps NULL for ones. Returns 1 / sum, by which the caller
   must multiply: attention does so after the product with V, where there are fewer elements. Reads
   and writes up to 15 elements past the n-th. */
VIT__ROW float VIT__(softmax)(float *x, const float *steps, int n, float scale) {
    const VIT__(v) lowest = VIT__(splat)(VIT__LOWEST), factor = VIT__(splat)(scale);
    VIT__(v) max = lowest;
    VIT__(lanes) sum;
    int i;
    VIT__(clear)(&sum);
    for (i = 0; i < n; i += VIT__WIDE) {
        VIT__(v) a = VIT__(load)(x + i);
        if (VIT__IN_INTEGERS && steps) a = VIT__(mul)(a, VIT__(load)(steps + i));
        a = VIT__(mul)(a, factor);
        VIT__(store)(x + i, a);
        max = VIT__(max)(VIT__(first)(a, n - i, lowest), max);
    }
    max = VIT__(splat)(VIT__(highest)(max));
    for (i = 0; i < n; i += VIT__WIDE) {
        const VIT__(v) a = VIT__(exp_below)(VIT__(sub)(VIT__(load)(x + i), max));
        VIT__(store)(x + i, a);
        sum.of[VIT__LANE(i)] = VIT__(plus)(sum.of[VIT__LANE(i)],
                                           VIT__(first)(a, n - i, VIT__(splat)(0.0f)));
    }
    return 1.0f / VIT__(sum)(&sum);
}

VIT__ROW void VIT__(scale)(float *y, const float *x, int n, float factor) {
    const VIT__(v) f = VIT__(splat)(factor);
    int i;
    for (i = 0; i < n; i += VIT__WIDE)
        VIT__(put)(y + i, VIT__(mul)(VIT__(get)(x + i, n - i), f), n - i);
}

/* y = a + gamma * b, with gamma NULL for ones: the two additions of the epilogue. */
VIT__ROW void VIT__(add)(float *y, const float *a, const float *b, const float *gamma, int n) {
    int i;
    for (i = 0; i < n; i += VIT__WIDE) {
        VIT__(v) to = VIT__(get)(a + i, n - i);
        const VIT__(v) from = VIT__(get)(b + i, n - i);
        to = gamma ? VIT__(fmadd)(from, VIT__(get)(gamma + i, n - i), to) : VIT__(plus)(to, from);
        VIT__(put)(y + i, to, n - i);
    }
}

/* Turns each pair (a, b) of a head by its angle, in place. The i-th a, for i < half, is at i *
   step; its b is `stride` further. */
VIT__INLINE void VIT__(rotate_pairs)(int step, int stride, float *x, const float *cosine,
                                     const float *sine, int half) {
    float a[16], b[16];
    int i, l;
    for (i = 0; i < half; i += VIT__WIDE) {
        float *const at = x + i * step;
        const int lanes = half - i < VIT__WIDE ? half - i : VIT__WIDE;
        for (l = 0; l < lanes; l++) {
            const float p = at[l * step], q = at[l * step + stride];
            const float co = vit__stored(cosine + i + l), si = vit__stored(sine + i + l);
            a[l] = VIT__F_FMA1(p, co, -(q * si));
            b[l] = VIT__F_FMA1(q, co, p * si);
        }
        for (l = 0; l < lanes; l++) at[l * step] = a[l];
        for (l = 0; l < lanes; l++) at[l * step + stride] = b[l];
    }
}

VIT__ROW void VIT__(rotate)(vit_rope rope, float *x, const float *cosine, const float *sine,
                          int half) {
    if (!VIT__FIXED_OR(rope, 1)) return;
    if (rope == VIT_ROPE_PAIRS) VIT__(rotate_pairs)(2, 1, x, cosine, sine, half);
    else VIT__(rotate_pairs)(1, half, x, cosine, sine, half);
}

/* --- rows into a layer ------------------------------------------------------------ */

/* vit__f32_to_bf16, in the lower half of each lane; the upper half is zero. Adding 0x7fff rounds
   halves down; adding the last kept bit too rounds them up if it is odd. So ties go to even. */
VIT__INLINE VIT__(v) VIT__(bf16)(VIT__(v) x) {
    const VIT__(v) upper = VIT__(shr)(x, 16);
    const VIT__(v) even = VIT__(and)(upper, VIT__(bits)(1));
    const VIT__(v) rounded = VIT__(iadd)(VIT__(iadd)(x, VIT__(bits)(0x7fff)), even);
    return VIT__(select)(VIT__(nan)(x), VIT__(or)(upper, VIT__(bits)(0x40)),
                         VIT__(shr)(rounded, 16));
}

/* Converts in place, to bf16 or to f32 rounded to it. Narrower elements never overtake unread
   ones. */
VIT__INLINE void VIT__(convert_bf16)(vit__form form, float *row, int n) {
    uint16_t *const to = (uint16_t *)(void *)row;
    int i;
    for (i = 0; i < n; i += VIT__WIDE) {
        const VIT__(v) half = VIT__(bf16)(VIT__(get)(row + i, n - i));
        if (!VIT__SIMD || form == VIT__FORM_ROUNDED)
            VIT__(put)(row + i, VIT__(shl)(half, 16), n - i);
        else VIT__(put_halves)(to + i, half, n - i);
    }
    if (VIT__SIMD && form == VIT__FORM_BF16 && n % 2) memset(to + n, 0, sizeof *to);
}

/* Smallest and largest of n elements and zero; NaN is the largest. */
VIT__INLINE void VIT__(range)(const float *x, int n, float *low, float *high) {
    VIT__(v) least = VIT__(splat)(0.0f), most = least, nan = least;
    int i;
    for (i = 0; i < n; i += VIT__WIDE) {
        const VIT__(v) a = VIT__(get)(x + i, n - i);
        least = VIT__(min)(a, least);
        most = VIT__(max)(a, most);
        if (VIT__SPREADS_NAN) nan = VIT__(or)(nan, VIT__(nan)(a));
    }
    *low = VIT__(lowest)(least);
    *high = VIT__SPREADS_NAN && VIT__(any)(nan) ? VIT__NAN : VIT__(highest)(most);
}

/* Spreads the range of a row over 256 steps of 8 bits; zero is one of them. 254.99 instead of 255
   keeps both ends of the range within half a step of the first and the last, since both are
   rounded. */
VIT__INLINE vit__u8_steps VIT__(u8_steps)(const float *row, int n) {
    vit__u8_steps s = { 0.0f, 0.0f, 0.0f };
    float low, high;
    VIT__(range)(row, n, &low, &high);
    if (high - low > 1e-30f) {
        s.scale = (high - low) / 254.99f;
        s.inverse = 254.99f / (high - low);
    } else if (VIT__SPREADS_NAN && vit__is_nan(high)) {
        s.scale = high;
    }
    s.base = VIT__F_FMA1(-low, s.inverse, VIT__ROUND);
    return s;
}

/* Works in place: it reads 16 elements before it writes any of their bytes. Bytes then end at 8 + i
   + 16; unread floats begin at 4 * (i + 16). base contains VIT__ROUND, which leaves the integer of
   x * inverse + base in the low bits. */
VIT__INLINE void VIT__(convert_u8)(vit__form form, float *row, int n) {
    const vit__u8_steps s = VIT__(u8_steps)(row, n);
    const int is_signed = VIT__SIMD && form == VIT__FORM_S8;
    const int32_t zero = (int32_t)(vit__bits(s.base) & 0xffu) - (is_signed ? 128 : 0);
    const VIT__(v) inverse = VIT__(splat)(s.inverse), base = VIT__(splat)(s.base);
    const VIT__(v) flip = VIT__(bits)(is_signed ? 128 : 0);
    unsigned char *const to = (unsigned char *)row + VIT__U8_HEADER;
    int i, j;
    for (i = 0; i < n; i += 16) {
        const int left = n - i;
        VIT__(lanes) x;
        unsigned char q[16];
        VIT__(clear)(&x);
        for (j = 0; j < 16 && (VIT__WIDE > 1 || j < left); j += VIT__WIDE)
            x.of[j / VIT__WIDE] = VIT__(get)(row + i + j, left - j);
        for (j = 0; j < 16; j += VIT__WIDE) {
            const VIT__(v) step = VIT__(fmadd)(x.of[j / VIT__WIDE], inverse, base);
            VIT__STORE_BYTES((VIT__WIDE > 1 && left >= 16 ? to + i : q) + j,
                             VIT__(iadd)(step, flip))
        }
        if (VIT__WIDE == 1 || left < 16)
            memcpy(to + i, q, left < 16 ? (size_t)vit__round_up(left, 4) : 16);
    }
    if (is_signed)
        for (i = n; i % 8; i++) to[i] = 0;
    memcpy(row, &s.scale, 4);
    memcpy(row + 1, &zero, 4);
}

VIT__ROW void VIT__(convert)(vit__form form, float *row, int n) {
    switch (form) {
    case VIT__FORM_F32:
    case VIT__FORM_I16: break;
    case VIT__FORM_ROUNDED:
    case VIT__FORM_BF16:
        if (VIT__HAS_BF16) VIT__(convert_bf16)(form, row, n);
        break;
    case VIT__FORM_U8:
    case VIT__FORM_S8:
        if (VIT__HAS_U8) VIT__(convert_u8)(form, row, n);
        break;
    }
}

/* --- attention in integers -------------------------------------------------------- */

/* 1 / sqrt(x): halving the exponent by a shift is off by 3.4 %; two steps of Newton's method reduce
   that to 0.17 % and 5e-6. VIT__LENGTH has a margin for this error. */
VIT__INLINE float VIT__(rsqrt)(float x) {
    const float half = -0.5f * x;
    float y = vit__float(0x5f3759dfu - (vit__bits(x) >> 1));
    y = y * VIT__F_FMA1(half * y, y, 1.5f);
    return y * VIT__F_FMA1(half * y, y, 1.5f);
}

/* The factor that scales a row to length VIT__LENGTH. */
VIT__ROW float VIT__(length_factor)(const float *x, int n) {
    VIT__(lanes) lane;
    float sum;
    int i;
    VIT__(clear)(&lane);
    for (i = 0; i < n; i += VIT__WIDE) {
        const VIT__(v) a = VIT__(get)(x + i, n - i);
        lane.of[VIT__LANE(i)] = VIT__(fmadd)(a, a, lane.of[VIT__LANE(i)]);
    }
    sum = VIT__(sum)(&lane);
    return vit__is_usable(sum) ? VIT__LENGTH * VIT__(rsqrt)(sum) : vit__unusable(sum);
}

/* The factor that scales the largest of n elements to `limit`. */
VIT__INLINE float VIT__(largest_factor)(const float *x, int n, float limit) {
    const VIT__(v) size = VIT__(bits)(0x7fffffffu);
    VIT__(v) most = VIT__(splat)(0.0f), nan = most;
    float largest;
    int i;
    for (i = 0; i < n; i += VIT__WIDE) {
        const VIT__(v) a = VIT__(get)(x + i, n - i);
        most = VIT__(max)(VIT__(and)(a, size), most);
        nan = VIT__(or)(nan, VIT__(nan)(a));
    }
    largest = VIT__(any)(nan) ? VIT__NAN : VIT__(highest)(most);
    return vit__is_usable(largest) ? limit / largest : vit__unusable(largest);
}

/* round(x * factor): as f32 in f32 panels, otherwise in the lower bits. */
VIT__INLINE VIT__(v) VIT__(rounded)(vit_dtype dtype, VIT__(v) x, VIT__(v) factor) {
    x = VIT__(fmadd)(x, factor, VIT__(splat)(VIT__ROUND));
    return dtype == VIT_F32 ? VIT__(sub)(x, VIT__(splat)(VIT__ROUND)) : x;
}

#if VIT__HAS_I16
/* row[i] = round(row[i] * steps[i] * factor), in place as i16 or f32, up to 15 elements past the
   n-th. If steps is NULL, the factor comes from the row's length. Returns the row's step. */
VIT__ROW float VIT__(quantise)(vit__form form, float *row, const float *steps, int n,
                               float factor) {
    const vit_dtype dtype = VIT__WIDE > 1 && form == VIT__FORM_F32 ? VIT_F32 : VIT__I16;
    uint16_t *const to = (uint16_t *)(void *)row;
    VIT__(v) f;
    int i;
    (void)form; /* plain C has a kernel for 16 bits */
    if (!VIT__IN_INTEGERS) return 0.0f;
    if (!steps) factor = VIT__(length_factor)(row, n);
    f = VIT__(splat)(factor);
    for (i = 0; i < n; i += VIT__WIDE) {
        VIT__(v) a = VIT__(load)(row + i);
        if (steps) a = VIT__(mul)(a, VIT__(load)(steps + i));
        a = VIT__(rounded)(dtype, a, f);
        if (dtype == VIT_F32) VIT__(store)(row + i, a);
        else VIT__(put_halves)(to + i, a, 16);
    }
    if (dtype != VIT_F32 && n % 2) memset(to + n, 0, sizeof *to);
    return vit__step(factor);
}
#endif

#if VIT__SMALL
/* Writes element k of row `row` to panels of this depth. */
VIT__CALL void VIT__(put_weight)(vit_dtype dtype, void *panels, int row, int k, int depth,
                                 float x) {
    unsigned char *panel = (unsigned char *)panels +
                           (size_t)(row / 16) * (size_t)vit__panel_bytes(dtype, depth);
    const size_t i = vit__panel_index(dtype, row, k);
    const uint16_t half = VIT__HAS_BF16 && dtype == VIT_BF16
                              ? vit__f32_to_bf16(x)
                              : vit__le16((uint16_t)(vit__bits(x) & 0xffffu));
    if (dtype != VIT_F32) memcpy(panel + 2 * i, &half, 2);
    else memcpy(panel + 4 * i, &x, 4);
}

/* Packs the keys and values of one head as panels, element by element, for size. */
VIT__ROW void VIT__(pack_head)(vit_dtype product, const vit__packing *to,
                               const vit__unpacked *from) {
    const vit_dtype dtype = vit__known_product(product);
    const size_t keys = (size_t)vit__ceil_div(to->tokens, 16) *
                        (size_t)vit__panel_bytes(dtype, to->dim);
    const size_t values = (size_t)vit__ceil_div(to->dim, 16) *
                          (size_t)vit__panel_bytes(dtype, to->tokens);
    const float *k = from->k, *v = from->v;
    int t, d;
    if (from->first == 0) memset(to->keys, 0, keys);
    if (from->first == 0) memset(to->values, 0, values);
    for (t = from->first; t < from->first + from->count; t++, k += from->ld, v += from->ld) {
        float x = 0.0f, y = 0.0f;
        if (vit__is_quantised(to)) {
            x = VIT__(length_factor)(k, to->dim);
            y = VIT__(largest_factor)(v, to->dim, vit__value_limit(to->tokens));
            to->key_steps[t] = vit__step(x);
            to->value_steps[t] = vit__step(y);
        }
        for (d = 0; d < to->dim; d++) {
            float key = k[d], value = v[d];
            if (vit__is_quantised(to)) {
                key = VIT__F_FMA1(key, x, VIT__ROUND);
                value = VIT__F_FMA1(value, y, VIT__ROUND);
                if (dtype == VIT_F32) key -= VIT__ROUND, value -= VIT__ROUND;
            }
            VIT__(put_weight)(dtype, to->keys, t, d, to->dim, key);
            VIT__(put_weight)(dtype, to->values, d, t, to->tokens, value);
        }
    }
}

#else

/* Units of up to 16 elements of a token, not quantised if factor is NULL. Elements past n are
   zeros, as the padding of panels must be. */
VIT__INLINE void VIT__(pack_units)(vit_dtype dtype, uint32_t *unit, const float *from, int n,
                                   const float *factor) {
    uint16_t half[16];
    int i;
    for (i = 0; i < 16; i += VIT__WIDE) {
        VIT__(v) a = VIT__(splat)(0.0f);
        if (i < n) a = VIT__(get)(from + i, n - i);
        if (factor) a = VIT__(rounded)(dtype, a, VIT__(splat)(*factor));
        if (dtype == VIT_F32) VIT__(store_as_stored)(unit + i, a);
        else VIT__(put_halves)(half + i, dtype == VIT_BF16 ? VIT__(bf16)(a) : a, 16);
    }
    if (dtype != VIT_F32) memcpy(unit, half, sizeof half);
}

/* Packs the keys of up to 16 tokens as the panels of a layer whose columns are tokens. A unit is 4
   bytes of a panel in the file's byte order: one f32, or a pair of 16 bits along the inner index.
   In f32, unit d of token t goes from k[t][d] to keys[t / 16][d][t % 16]; a pair comes from k[t][2
   d] and k[t][2 d + 1]. Rows of 16 elements are converted, then transposed in `unit`, since panels
   hold the tokens next to each other. */
VIT__INLINE void VIT__(pack_keys)(vit_dtype dtype, const vit__packing *to,
                                  const vit__unpacked *from) {
    const int elements = vit__unit_elements(dtype), units = vit__ceil_div(to->dim, elements);
    const int first = from->first, tokens = from->count;
    uint32_t unit[16][16], *at = to->keys + first / 16 * 16 * units + first % 16;
    float factor[16];
    int d, t, i;
    for (t = 0; t < tokens && vit__is_quantised(to); t++) {
        factor[t] = VIT__(length_factor)(from->k + (size_t)t * from->ld, to->dim);
        to->key_steps[first + t] = vit__step(factor[t]);
    }
    for (d = 0; d < to->dim; d += 16) {
        const int rest = vit__min(16, to->dim - d), end = vit__ceil_div(rest, elements);
        for (t = 0; t < tokens; t++)
            VIT__(pack_units)(dtype, unit[t], from->k + (size_t)t * from->ld + d, rest,
                              vit__is_quantised(to) ? &factor[t] : NULL);
        for (i = 0; i < end; i++, at += 16)
            for (t = 0; t < tokens; t++) at[t] = unit[t][i];
    }
}

/* Packs the values as the panels of a layer whose columns are elements of a value and whose inner
   index is the token. The first token is even. In f32, v[t][d] goes to values[d / 16][t][d % 16].
   In pairs, v[t][d] and v[t + 1][d] become the halves of one unit. So rows stay rows; the keys, in
   contrast, are transposed. */
VIT__INLINE void VIT__(pack_values)(vit_dtype dtype, const vit__packing *to,
                                    const vit__unpacked *from) {
    const int elements = vit__unit_elements(dtype), dim = to->dim;
    const int units = vit__ceil_div(to->tokens, elements), end = from->first + from->count;
    const VIT__(v) zero = VIT__(splat)(0.0f), low = VIT__(bits)(0xffff);
    const float *v = from->v;
    int token, d, i;
    for (token = from->first; token < end; token += elements, v += (size_t)elements * from->ld) {
        const int pair = elements == 2 && token + 1 < end;
        uint32_t *const at = to->values + token / elements * 16;
        float factor[2] = { 0.0f, 0.0f };
        for (i = 0; i <= pair && vit__is_quantised(to); i++) {
            factor[i] = VIT__(largest_factor)(v + (size_t)i * from->ld, dim,
                                              vit__value_limit(to->tokens));
            to->value_steps[token + i] = vit__step(factor[i]);
        }
        for (d = 0; d < vit__round_up(dim, 16); d += VIT__WIDE) {
            VIT__(v) a = zero, b = zero;
            if (d < dim) a = VIT__(get)(v + d, dim - d);
            if (d < dim && pair) b = VIT__(get)(v + from->ld + d, dim - d);
            if (vit__is_quantised(to)) {
                a = VIT__(rounded)(dtype, a, VIT__(splat)(factor[0]));
                b = VIT__(rounded)(dtype, b, VIT__(splat)(factor[1]));
            }
            if (dtype == VIT_BF16) a = VIT__(bf16)(a), b = VIT__(bf16)(b);
            if (elements == 2) a = VIT__(or)(VIT__(and)(a, low), VIT__(shl)(b, 16));
            VIT__(store_as_stored)(at + d / 16 * units * 16 + d % 16, a);
        }
    }
}

/* Packs the keys and values of one head as panels. Packing keys hides the memory latency of values,
   and the reverse. */
VIT__ROW void VIT__(pack_head)(vit_dtype dtype, const vit__packing *to,
                               const vit__unpacked *from) {
    const int end = from->first + from->count;
    const int units = vit__ceil_div(to->dim, vit__unit_elements(dtype));
    vit__unpacked some = *from;
    if (from->first == 0 && to->tokens % 16) /* keys past the last token, to fill a panel */
        memset(to->keys + to->tokens / 16 * 16 * units, 0, (size_t)units * 64);
    for (; some.first < end; some.first += some.count) {
        some.count = vit__min(16 - some.first % 16, end - some.first);
        vit__prefetch_rows(some.v, some.ld, some.count, to->dim);
        VIT__(pack_keys)(dtype, to, &some);
        some.k += (size_t)some.count * some.ld;
        vit__prefetch_rows(some.k, some.ld, vit__min(16, end - some.first - some.count), to->dim);
        VIT__(pack_values)(dtype, to, &some);
        some.v += (size_t)some.count * some.ld;
    }
}
#endif

#ifndef VIT_NO_PREPROCESS
#    if VIT__WIDE == 1
/* to[l] = sum of weight i * lines[i][l]. The lines are `stride` bytes apart; if the taps are odd in
   number, one more line is read. lanes is a multiple of 16. Weights add up to 2^22; the magnitudes
   of bicubic ones add up to less than twice that. So 255 * 2^23 fits 32 bits. */
VIT__ROW void VIT__(resample)(uint8_t *to, const uint8_t *lines, size_t stride,
                            const vit__taps *taps, int lanes) {
    const int16_t *const low = taps->weights, *const high = low + vit__even(taps);
    int x, i, l;
    for (x = 0; x < lanes; x += 16) {
        const uint8_t *p = lines + x, *q = p + stride;
        int32_t sum[16] = { 0 };
        for (i = 0; i < taps->count; i += 2, p += 2 * stride, q += 2 * stride) {
            const int32_t w = low[i] + high[i] * 65536, v = low[i + 1] + high[i + 1] * 65536;
            for (l = 0; l < 16; l++) sum[l] += p[l] * w + q[l] * v;
        }
        vit__clip16(to + x, sum);
    }
}
#    else
/* Multiplies pairs of 16 bits: the lower and the upper halves of the weights have separate sums.
   Each may wrap, but their combination does not: it is correct modulo 2^32. */
VIT__ROW void VIT__(resample)(uint8_t *to, const uint8_t *lines, size_t stride,
                            const vit__taps *taps, int lanes) {
    const unsigned char *const weights = (const unsigned char *)taps->weights;
    const size_t size = 2 * (size_t)vit__even(taps);
    for (; lanes > 0; lanes -= 16, lines += 16, to += 16) {
        const unsigned char *at = weights;
        const uint8_t *p = lines;
        int32_t sum[16];
#        define VIT__SUM_REG(n, word) VIT__RI low##n = VIT__I_ZERO(), high##n = low##n;
#        define VIT__TAP_REG(n, word)                                                             \
            {                                                                                     \
                const VIT__LINES_TYPE pairs = VIT__LINES(p, stride, n);                           \
                low##n = VIT__LINES_ADD(low##n, pairs, w);                                        \
                high##n = VIT__LINES_ADD(high##n, pairs, v);                                      \
            }
#        define VIT__PUT_REG(n, word)                                                             \
            VIT__I_STORE(sum + n * VIT__LANES, VIT__I_ADD(low##n, VIT__I_SHL(high##n, 16)));
        VIT__EACH(VIT__SUM_REG, )
        for (; at < weights + size; at += 4, p += 2 * stride) {
            const int32_t w = vit__load32(at), v = vit__load32(at + size);
            VIT__EACH(VIT__TAP_REG, )
        }
        VIT__EACH(VIT__PUT_REG, )
#        undef VIT__SUM_REG
#        undef VIT__TAP_REG
#        undef VIT__PUT_REG
        vit__clip16(to, sum);
    }
}
#    endif
#endif

/* --- int4: groups of 32 weights of a column share a scale ------------------------- */

/* Turns the chains of a tile into results. sums holds the panel's sums of weights. The zero of
   FORM_S8 is `below` less than that of FORM_U8. */
VIT__INLINE void VIT__(finish_i4)(float *tile, const vit__operands *o, const unsigned char *sums,
                                  int below) {
    int r, l;
    for (r = 0; r < o->rows; r++, tile += o->ldt) {
        const unsigned char *const a = o->a + (size_t)r * o->lda;
        const VIT__(v) scale = VIT__(splat)(vit__load_float(a));
        const VIT__(v) zero = VIT__(splat)(-(float)(vit__load32(a + 4) + below));
        for (l = 0; l < 16; l += VIT__WIDE) {
            const VIT__(v) sum = VIT__(load_stored)((const float *)(const void *)sums + l);
            const VIT__(v) x = VIT__(fmadd)(zero, sum, VIT__(load)(tile + l));
            VIT__(store)(tile + l, VIT__(mul)(x, scale));
        }
    }
}

#if VIT__WIDE > 1
static void VIT__(finish_of_i4)(float *tile, const vit__operands *o, const unsigned char *panel) {
    const unsigned char *const end = panel + (size_t)vit__panel_bytes(VIT_I4, o->depth);
    VIT__(finish_i4)(tile, o, end - 64, VIT__BELOW);
}
#endif

#endif /* VIT__STAMP_ROWS */

/* --- tiles of floats -------------------------------------------------------------- */

/* VIT__COL is the byte offset of register n from the first of a tile's registers of weights. 512
   bits are a whole panel. */
#if defined(VIT__LANES) && VIT__LANES == 16
#    define VIT__COL(n, size) ((size_t)(n) * stride)
#else
#    define VIT__COL(n, size) ((size_t)((n) * VIT__LANES * (size)))
#endif

#if VIT__STAMP & VIT__STAMP_FLOATS

/* Weights number k of register n, as f32. A pair of bf16 holds weight k in its lower half, which is
   shifted up, and k + 1 in its upper half, which is masked. */
VIT__INLINE VIT__RF VIT__(weights)(int kind, const unsigned char *p, size_t stride, int n, int k) {
    (void)stride;
#    if defined(VIT__W_F16)
    if (kind == VIT__TILE_F16) {
        if (n == 0) VIT__STREAM(p + 32 * (size_t)k)
        return VIT__W_F16(p + 32 * (size_t)k + VIT__COL(n, 2));
    }
#    endif
    if (kind == VIT__TILE_BF16)
        return VIT__W_BF16(p + 64 * (size_t)(k / 2) + VIT__COL(n, 4), k);
    if (n == 0 && kind == VIT__TILE_F32) VIT__STREAM(p + 64 * (size_t)k)
    return VIT__F_LOAD((const float *)(const void *)(p + 64 * (size_t)k + VIT__COL(n, 4)));
}

/* tile[height][width registers] = a[height][depth] times weights: one chain of fma for each
   element. Rows past the last repeat the last row and its results. */
VIT__INLINE void VIT__(float_tile)(int kind, int height, int width, float *tile,
                                   const vit__operands *o, const unsigned char *p, size_t stride) {
    const unsigned char *const a = o->a, *const ahead = VIT__AHEAD_OF(o, p);
    const size_t lda = o->lda, ldt = o->ldt;
    const int rows = o->rows, depth = o->depth;
    const int steps = kind == VIT__TILE_DOT ? (depth + 1) / 2 : depth;
    int i;
    VIT__TILE_HEIGHT(VIT__TILE_ROW)
    VIT__TILE_HEIGHT(VIT__FLOAT_SUMS)
    (void)ahead;
    for (i = 0; i < steps; i++) {
        const int in_pairs = kind == VIT__TILE_BF16 || kind == VIT__TILE_ODD;
        const int k = in_pairs && (i ^ 1) < depth ? i ^ 1 : i;
        const unsigned char *w = p + 64 * (size_t)k;
        const VIT__RF w0 = VIT__(weights)(kind, p, stride, 0, k);
        const VIT__RF w1 = width > 1 ? VIT__(weights)(kind, p, stride, 1, k) : w0;
        const VIT__RF w2 = width > 2 ? VIT__(weights)(kind, p, stride, 2, k) : w0;
        const VIT__RF w3 = width > 3 ? VIT__(weights)(kind, p, stride, 3, k) : w0;
        (void)w, (void)w1, (void)w2, (void)w3;
        if (kind == VIT__TILE_F32 || kind == VIT__TILE_DOT) VIT__AHEAD(i)
        VIT__FLOAT_ROW(0)
        VIT__FLOAT_ROW(1)
        VIT__FLOAT_ROW(2)
        VIT__FLOAT_ROW(3)
        VIT__FLOAT_ROW(4)
        VIT__FLOAT_ROW(5)
        VIT__FLOAT_ROW(6)
        VIT__FLOAT_ROW(7)
    }
    VIT__TILE_HEIGHT(VIT__FLOAT_STORE)
}

#    if defined(VIT__WIDENS)
/* Widens weights k to k + count of a panel to f32, 16 of each k. */
static void VIT__(widen_f16)(void *to, const unsigned char *panel, int k, int count) {
    float *at = (float *)to;
    int i, n;
    for (i = 0, panel += 32 * (size_t)k; i < count; i++, panel += 32, at += 16)
        for (n = 0; n < 16; n += VIT__LANES)
            VIT__F_STORE(at + n, VIT__W_F16(panel + 2 * n));
}
static void VIT__(widen_bf16)(void *to, const unsigned char *panel, int k, int count) {
    float *at = (float *)to;
    int i, n;
    for (i = 0, panel += 32 * (size_t)k; i < count; i += 2, panel += 64, at += 32)
        for (n = 0; n < 16; n += VIT__LANES) {
            VIT__F_STORE(at + n, VIT__W_BF16(panel + 4 * n, 0));
            VIT__F_STORE(at + 16 + n, VIT__W_BF16(panel + 4 * n, 1));
        }
}
#    endif

#endif /* VIT__STAMP_FLOATS */

/* --- tiles of integers ------------------------------------------------------------ */

#if VIT__STAMP & VIT__STAMP_BYTES

/* (float)(sum - zero * sums) * (scale * scales), the integers modulo 2^32, of one row. The columns'
   scales and sums of weights are at `tail`. Both terms may wrap, but their difference fits 32 bits,
   since it is the sum of (q - zero) * w. */
VIT__INLINE VIT__RF VIT__(dequantise)(VIT__RI sum, const unsigned char *a,
                                      const unsigned char *tail) {
    float scale;
    int zero;
    VIT__COPY(&scale, VIT__ALIGNED_4(a), 4);
    VIT__COPY(&zero, VIT__ALIGNED_4(a + 4), 4);
    sum = VIT__I_SUB(sum, VIT__I_MUL(VIT__I_SPLAT(zero), VIT__I_LOAD(tail + 64)));
    return VIT__F(mul)(VIT__I_TO_F(sum), VIT__F(mul)(VIT__F_SPLAT(scale),
                                                   VIT__F_LOAD((const float *)(const void *)tail)));
}

/* One step of one sum: c += x w + y u. x and y come from a row; u is the weights 64 bytes after
   w. */
VIT__INLINE VIT__ACC VIT__(byte_step)(int kind, VIT__ACC c, VIT__XI x, VIT__XI y, VIT__RI w,
                                      VIT__U u) {
    (void)y, (void)u;
#    if defined(VIT__DOT8)
    if (kind == VIT__TILE_DOT8) VIT__DOT8(c, x, w)
#    endif
#    if defined(VIT__DOT16)
    if (kind == VIT__TILE_DOT16) VIT__DOT16(c, x, w)
#    endif
#    if defined(VIT__WIDE_BYTES)
    if (kind == VIT__TILE_SPLIT) {
        VIT__DOT16(c, x, VIT__SRA16(VIT__SHL16(w)))
        VIT__DOT16(c, y, VIT__SRA16(w))
    }
    if (kind == VIT__TILE_WIDE) {
        VIT__DOT16(c, x, w)
        VIT__DOT16(c, y, VIT__I_LOAD(u))
    }
#    endif
#    if defined(VIT__TWO_QUADS)
    if (kind == VIT__TILE_TWO) VIT__TWO_QUADS(c, x, y, w, u)
#    endif
    return c;
}

/* Writes the sums of a register of columns to the tile. */
VIT__INLINE void VIT__(byte_store)(int kind, float *to, VIT__ACC c, const unsigned char *a,
                                   const unsigned char *tail, const vit__operands *o,
                                   size_t stride) {
    const VIT__RI sum = VIT__ACC_SUM(c);
    const size_t lda = o->lda, ldt = o->ldt;
    (void)lda, (void)ldt, (void)stride;
    if (kind == VIT__TILE_DOT16) VIT__F_STORE(to, VIT__I_TO_F(sum));
    else if (kind == VIT__TILE_WIDE) VIT__I_STORE(to, sum);
    else {
        const VIT__RF x = VIT__BYTE_RESULT(sum, a, tail);
        VIT__CHAIN_STORE(to, x);
    }
}

/* float_tile in integers. The sums of int8 fit 32 bits: |q| <= 255, |w| <= 127, depth <= 65536. The
   scales and sums of weights begin at `tail`, behind all quads of the panel. */
VIT__INLINE void VIT__(byte_tile)(int kind, int height, int width, float *tile,
                                  const vit__operands *o, const unsigned char *p, size_t stride) {
    const unsigned char *const a = o->a, *const ahead = VIT__AHEAD_OF(o, p);
    const size_t lda = o->lda, ldt = o->ldt;
    const int rows = o->rows, depth = o->depth, bytes = kind == VIT__TILE_TWO ? 8 : 4;
    const int steps = kind == VIT__TILE_DOT16 ? (depth + 1) / 2 : (depth + bytes - 1) / bytes;
    const size_t step = kind == VIT__TILE_TWO || kind == VIT__TILE_WIDE ? 128 : 64;
    const size_t header = kind == VIT__TILE_DOT16 ? 0 : VIT__U8_HEADER;
    const unsigned char *const tail = p + 64 * (size_t)((depth + 3) / 4);
    int k;
    VIT__TILE_HEIGHT(VIT__TILE_ROW)
    VIT__TILE_HEIGHT(VIT__BYTE_SUMS)
    (void)ahead, (void)tail, (void)stride;
    for (k = 0; k < steps; k++) {
        VIT__INDEX(k)
        const unsigned char *w = p + step * (size_t)k;
        const size_t at = header + (size_t)bytes * (size_t)k;
        const VIT__RI w0 = VIT__W_REG(0);
        const VIT__RI w1 = width > 1 ? VIT__W_REG(1) : w0;
        const VIT__RI w2 = width > 2 ? VIT__W_REG(2) : w0;
        const VIT__RI w3 = width > 3 ? VIT__W_REG(3) : w0;
        VIT__U_LOAD
        (void)w1, (void)w2, (void)w3;
        VIT__AHEAD(k)
        VIT__BYTE_ROW(0)
        VIT__BYTE_ROW(1)
        VIT__BYTE_ROW(2)
        VIT__BYTE_ROW(3)
        VIT__BYTE_ROW(4)
        VIT__BYTE_ROW(5)
        VIT__BYTE_ROW(6)
        VIT__BYTE_ROW(7)
    }
    VIT__TILE_HEIGHT(VIT__BYTE_STORE)
}

#    if VIT__SHAPES
/* int4 with widened groups: the exact sums of a group are scaled and added to the tile, which holds
   the sums of all previous groups. */
VIT__INLINE void VIT__(group_tile)(int kind, int height, int width, float *tile,
                                   const vit__operands *o, const unsigned char *p, size_t stride) {
    const unsigned char *const a = o->a;
    const size_t lda = o->lda, ldt = o->ldt, step = kind == VIT__TILE_DOT8 ? 64 : 128;
    const int rows = o->rows, groups = o->depth / 32, quads = kind == VIT__TILE_TWO ? 2 : 1;
    const unsigned char *scale = p, *w = p + VIT__GROUPS_HEADER;
    size_t at = VIT__U8_HEADER;
    int i, k;
    VIT__TILE_HEIGHT(VIT__TILE_ROW)
    VIT__TILE_HEIGHT(VIT__CHAINS)
    (void)stride;
    for (i = 0; i < groups; i++, scale += 64) {
        VIT__TILE_HEIGHT(VIT__GROUP_SUMS)
        for (k = 0; k < 8; k += quads, w += step, at += 4 * (size_t)quads) {
            const VIT__RI w0 = VIT__W_REG(0);
            const VIT__RI w1 = width > 1 ? VIT__W_REG(1) : w0;
            const VIT__RI w2 = width > 2 ? VIT__W_REG(2) : w0;
            const VIT__RI w3 = width > 3 ? VIT__W_REG(3) : w0;
            VIT__U_LOAD
            (void)w1, (void)w2, (void)w3;
            VIT__BYTE_ROW(0)
            VIT__BYTE_ROW(1)
            VIT__BYTE_ROW(2)
            VIT__BYTE_ROW(3)
            VIT__BYTE_ROW(4)
            VIT__BYTE_ROW(5)
            VIT__BYTE_ROW(6)
            VIT__BYTE_ROW(7)
        }
        VIT__TILE_HEIGHT(VIT__GROUP_SCALE)
    }
    VIT__TILE_HEIGHT(VIT__CHAINS_STORE)
}
#    endif

#    if defined(VIT__WIDE_I4)
/* Widens the quads of a panel to 16-bit integers: first the even ones of each quad, then the odd
   ones. */
static void VIT__(widen_i8)(void *to, const unsigned char *panel, int k, int count) {
    unsigned char *at = (unsigned char *)to;
    int n;
    for (panel += 16 * (size_t)k; count > 0; count -= 4, panel += 64, at += 128)
        for (n = 0; n < 64; n += 4 * VIT__LANES) {
            const VIT__RI v = VIT__I_LOAD(panel + n);
            VIT__I_STORE(at + n, VIT__SRA16(VIT__SHL16(v)));
            VIT__I_STORE(at + 64 + n, VIT__SRA16(v));
        }
}

/* Turns sums of int8 in the tile, integers, into results. */
static void VIT__(finish_i8)(float *tile, const vit__operands *o, const unsigned char *panel) {
    const unsigned char *const tail = panel + 64 * (size_t)((o->depth + 3) / 4);
    int r, n;
    for (r = 0; r < o->rows; r++, tile += o->ldt)
        for (n = 0; n < 16; n += VIT__LANES)
            VIT__F_STORE(tile + n, VIT__(dequantise)(VIT__I_LOAD(tile + n),
                                                     o->a + (size_t)r * o->lda, tail + 4 * n));
}
#    endif

#    if defined(VIT__WIDENS_I4)
/* Widens groups of int4 to quads of bytes in the order of int8, or of 16 bits for tiles that take
   those. */
static void VIT__(widen_i4)(void *to, const unsigned char *panel, int k, int count) {
    const VIT__RI mask = VIT__I_SPLAT(0x0f0f0f0f), eight = VIT__I_SPLAT(0x08080808);
    vit__groups *const wide = (vit__groups *)to;
    const unsigned char *group = panel + (size_t)(k / 32) * VIT__I4_GROUP;
    int i, n;
    for (i = 0; i < count / 32; i++, group += VIT__I4_GROUP) {
#        if defined(VIT__WIDE_I4)
        VIT__RI quads[128 / VIT__LANES];
        unsigned char *const low = (unsigned char *)quads;
#        else
        unsigned char *const low = wide->quads + 512 * i;
#        endif
        for (n = 0; n < 256; n += 4 * VIT__LANES) {
            const VIT__RI q = VIT__I_LOAD(group + 32 + n);
            VIT__I_STORE(low + n, VIT__SUB8(VIT__I_AND(q, mask), eight));
            VIT__I_STORE(low + 256 + n, VIT__SUB8(VIT__I_AND(VIT__I_SHR(q, 4), mask), eight));
        }
        for (n = 0; n < 16; n += VIT__LANES)
            VIT__F_STORE(wide->scale + 16 * i + n, VIT__W_F16(group + 2 * n));
#        if defined(VIT__WIDE_I4)
        VIT__(widen_i8)(wide->quads + 1024 * i, low, 0, 32);
#        endif
        if (VIT__BELOW) vit__base_i4(wide->base + 16 * i, low);
    }
}
#    endif

#endif /* VIT__STAMP_BYTES */

#undef VIT__COL
#undef VIT__WIDE
#undef VIT__EACH
#undef VIT__JOIN
#undef VIT__LANE
#undef VIT__FOLD
#undef VIT__SPLIT
#undef VIT__ACC_START
#if !(VIT__STAMP & VIT__STAMP_MORE) /* undefines the words of a family: those without a default */
#    undef VIT__COUNT
#    undef VIT__LANES
#    undef VIT__F_FMA1
#    undef VIT__F_FIRST
#    undef VIT__F_FMA
#    undef VIT__F_NAN
#    undef VIT__F_SELECT
#    undef VIT__SWAPS
#    undef VIT__STORE_BYTES
#    undef VIT__STORE_HALVES
#    undef VIT__I_MUL
#    undef VIT__LINES
#    undef VIT__W_F16
#    undef VIT__X_LOAD
#    undef VIT__MAC
#    undef VIT__DOT8
#    undef VIT__DOT16
#    undef VIT__TWO_QUADS
#    undef VIT__WIDE_BYTES
#    undef VIT__WIDENS_I4
#    undef VIT__MM
#    undef VIT__BITS
/* words that most tiers have in common */
#    undef VIT__BELOW
#    undef VIT__STREAM
#    undef VIT__AHEAD
#    undef VIT__REUSE
#    undef VIT__W
#    undef VIT__WI
#    undef VIT__W_BF16
#    undef VIT__INDEX
#    undef VIT__LINES_TYPE
#    undef VIT__W_REG
#    undef VIT__U
#    undef VIT__U_OF
#    undef VIT__U_LOAD
#    undef VIT__CHAIN_LOAD
#    undef VIT__CHAIN_STORE
#    undef VIT__SCALE_LOAD
#    undef VIT__BYTE_RESULT
#    undef VIT__SUM_START
#    undef VIT__ACC
#    undef VIT__ACC_SUM
#    undef VIT__ACC_ZERO
#    undef VIT__GROUP_START
#    undef VIT__GROUP_SUM
#    define VIT__BELOW 0 /* FORM_U8's bytes minus those of this form */
#    define VIT__STREAM(at) {}
#    define VIT__AHEAD(i) {}
#    define VIT__REUSE(w)
#    define VIT__W(n) w##n
#    define VIT__WI(n) w##n
#    define VIT__W_BF16(p, k)                                                                     \
        ((k) & 1 ? VIT__F(and)(VIT__F_LOAD((const float *)(const void *)(p)),                     \
                               VIT__F_BITS(0xffff0000u))                                          \
                 : VIT__F_SHL(VIT__F_LOAD((const float *)(const void *)(p)), 16))
#    define VIT__INDEX(k)
#    define VIT__LINES_TYPE VIT__RI
#    define VIT__W_REG(n) VIT__I_LOAD(w + VIT__COL(n, 4))
#    define VIT__U const unsigned char * /* address or register of the second quad's weights */
#    define VIT__U_OF(n) w + 64 + VIT__COL(n, 4)
#    define VIT__U_LOAD
#    define VIT__CHAIN_LOAD(p) VIT__F_LOAD(p)
#    define VIT__CHAIN_STORE(p, a) VIT__F_STORE(p, a)
#    define VIT__SCALE_LOAD(p) VIT__F_LOAD(p)
#    define VIT__BYTE_RESULT(sum, a, tail) VIT__(dequantise)(sum, a, tail)
#    define VIT__SUM_START(r, n) VIT__F_SPLAT(0.0f)
#    define VIT__ACC VIT__RI
#    define VIT__ACC_SUM(c) c
#    define VIT__ACC_ZERO VIT__I_ZERO()
#endif
#undef VIT__STAMP
#undef VIT__TIER
#define VIT__HAS_READ_ITSELF 1
#endif /* VIT__TIER */

#if defined(VIT__IMPLEMENTED) && !defined(VIT__TIER)
#if VIT__IMPLEMENTED == 1
#undef VIT__IMPLEMENTED
#define VIT__IMPLEMENTED 2

/* The name under which this file includes itself, once for each tier. VIT_FILE replaces it for
   compilers that do not supply the file's own name. */
#if defined(VIT_FILE)
#    define VIT__THIS_FILE VIT_FILE
#elif defined(__FILE_NAME__)
#    define VIT__THIS_FILE __FILE_NAME__
#else
#    define VIT__THIS_FILE "vit.h"
#endif

/* ------------------------------------------------------------------------- */
/* >>words                                                                   */
/* ------------------------------------------------------------------------- */

/* The vocabulary of each tier. F words take registers of floats, some as bits; I words take
   registers of integers.

      RF, RI, LANES, REGS   types of a register; its lanes; registers of 16
      F_FMA1                fma of one float
      SWAPS(op, x)          x = op(x, x with halves exchanged), down to one
      X, X_LOAD, MAC        a float of a row for all lanes; c = fma(x, w, c)
      XI, XI_LOAD           a quad of bytes of a row, or a pair, for all lanes
      DOT8, DOT16           c[l] += products of a lane's four bytes, or two 16-bit integers
      TWO_QUADS             c[l] += products of two quads, added in 16 bits
      EVEN, ODD             every other byte of a quad as 16 bits
      ACC                   sums of one register of columns

   To add an instruction set: its words and the parts of >>body that it stamps, here. VIT_ISA_LIST
   lists the other places. */

/* --- plain C: what every other tier must compute ---------------------------------- */

#define VIT__TIER none /* defines the words that have a default */
#define VIT__STAMP 0
#include VIT__THIS_FILE
#ifndef VIT__HAS_READ_ITSELF
#    error "vit.h: this file has another name: define VIT_FILE as that, in quotes"
#endif

VIT__INLINE float vit__add_one(float a, float b) { return a + b; }
VIT__INLINE float vit__sub_one(float a, float b) { return a - b; }
VIT__INLINE float vit__mul_one(float a, float b) { return a * b; }
VIT__INLINE float vit__div_one(float a, float b) { return a / b; }
VIT__INLINE float vit__min_one(float a, float b) { return a < b ? a : b; }
VIT__INLINE float vit__max_one(float a, float b) { return a > b ? a : b; }
VIT__INLINE float vit__and_one(float a, float b) { return vit__float(vit__bits(a) & vit__bits(b)); }
VIT__INLINE float vit__or_one(float a, float b) { return vit__float(vit__bits(a) | vit__bits(b)); }

#define VIT__TIER scalar
#define VIT__STAMP VIT__STAMP_ROWS
#define VIT__LANES 1
#define VIT__RF float
#define VIT__F_FMA1(a, b, c) vit__fma_scalar(a, b, c)
#define VIT__F_LOAD(p) (*(p))
#define VIT__F_STORE(p, a) (void)(*(p) = (a))
#define VIT__F_SPLAT(x) (x)
#define VIT__F_BITS(x) vit__float(x)
#define VIT__F(op) vit__##op##_one
#define VIT__F_FMA(a, b, c) vit__fma_scalar(a, b, c)
#define VIT__F_IADD(a, b) vit__float(vit__bits(a) + vit__bits(b))
#define VIT__F_SHL(a, n) vit__float(vit__bits(a) << (n))
#define VIT__F_SHR(a, n) vit__float(vit__bits(a) >> (n))
#define VIT__F_NAN(a) vit__float(vit__is_nan(a) ? 0xffffffffu : 0)
#define VIT__F_SELECT(mask, a, b) (vit__bits(mask) ? (a) : (b))
#define VIT__STORE_BYTES(p, v) *(p) = (unsigned char)(vit__bits(v.r0) & 0xffu);
#include VIT__THIS_FILE
#undef VIT__RF
#undef VIT__F_LOAD
#undef VIT__F_STORE
#undef VIT__F_SPLAT
#undef VIT__F_BITS
#undef VIT__F
#undef VIT__F_IADD
#undef VIT__F_SHL
#undef VIT__F_SHR

#if VIT__SCALAR || VIT__CORTEX

/* Matrix products of plain C, two rows times four columns of a panel: eight sums that stay in
   registers. If the number of rows is odd, the last one is computed twice. */
VIT__INLINE size_t vit__tile_step(const vit__operands *o) {
    return VIT__SMALL ? 16 : o->ldt; /* -Os: tiles are never part of a larger matrix */
}

VIT__INLINE void vit__gemm_2x4(vit_dtype dtype, float *tile, const vit__operands *o, int row,
                               int column) {
    const size_t next = row + 1 < o->rows, ldt = vit__tile_step(o);
    const unsigned char *const a = o->a + (size_t)row * o->lda, *const b = a + next * o->lda;
    const unsigned char *const panel = o->panel;
    const int depth = o->depth;
    float *const first = tile + (size_t)row * ldt + column, *const second = first + next * ldt;
    float a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
    int i;
    for (i = 0; i < depth; i++) {
        const int k = vit__summand(dtype, i, depth);
        const float x = vit__load_float(a + 4 * (size_t)k), y = vit__load_float(b + 4 * (size_t)k);
        float w = vit__weight(dtype, panel, column, k);
        a0 = vit__fma_inline(x, w, a0);
        b0 = vit__fma_inline(y, w, b0);
        w = vit__weight(dtype, panel, column + 1, k);
        a1 = vit__fma_inline(x, w, a1);
        b1 = vit__fma_inline(y, w, b1);
        w = vit__weight(dtype, panel, column + 2, k);
        a2 = vit__fma_inline(x, w, a2);
        b2 = vit__fma_inline(y, w, b2);
        w = vit__weight(dtype, panel, column + 3, k);
        a3 = vit__fma_inline(x, w, a3);
        b3 = vit__fma_inline(y, w, b3);
    }
    first[0] = a0, first[1] = a1, first[2] = a2, first[3] = a3;
    second[0] = b0, second[1] = b1, second[2] = b2, second[3] = b3;
}

VIT__INLINE void vit__gemm_body(vit_dtype dtype, float *tile, const vit__operands *o) {
    int row, column;
    for (row = 0; row < o->rows; row += 2)
        for (column = 0; column < 16; column += 4) vit__gemm_2x4(dtype, tile, o, row, column);
}

VIT__ROW void vit__gemm_f32_scalar(float *tile, const vit__operands *o) {
    if (VIT__HAS_F32) vit__gemm_body(VIT_F32, tile, o);
}
VIT__ROW void vit__gemm_f16_scalar(float *tile, const vit__operands *o) {
    if (VIT__HAS_F16) vit__gemm_body(VIT_F16, tile, o);
}
VIT__ROW void vit__gemm_bf16_scalar(float *tile, const vit__operands *o) {
    if (VIT__HAS_BF16) vit__gemm_body(VIT_BF16, tile, o);
}

/* Turns the sums of one row of a into results. tail holds the panel's scales and sums of weights.
   The difference wraps if a file states a wrong sum of weights. */
VIT__ROW void vit__dequantise_row(float *tile, const int32_t *sum, const unsigned char *a,
                                const unsigned char *tail) {
    const float scale = vit__load_float(a);
    const uint32_t zero = (uint32_t)vit__load32(a + 4);
    int l;
    for (l = 0; l < 16; l++, tail += 4)
        tile[l] = (float)(int32_t)((uint32_t)sum[l] - zero * vit__u32(tail + 64)) *
                  (scale * vit__panel_float(tail));
}

/* Multiplies one row of a by four columns of a panel, in integers: sum[c] += q[k] * w[k][c]. Every
   tier's sums fit 32 bits: |q| <= 255, |w| <= 128, depth <= 65536, and 65536 * 255 * 128 < 2^31. */
typedef void vit__dot_i8_fn(int32_t *sum, const unsigned char *q, const unsigned char *w,
                            int depth);

VIT__ROW void vit__dot_i8_scalar(int32_t *sum, const unsigned char *q, const unsigned char *w,
                               int depth) {
    const unsigned char *const end = q + depth;
    int32_t c0 = 0, c1 = 0, c2 = 0, c3 = 0;
    for (; q < end; q += 4, w += 64) {
        const signed char *const weight = (const signed char *)w;
        c0 += q[0] * weight[0], c1 += q[0] * weight[4];
        c2 += q[0] * weight[8], c3 += q[0] * weight[12];
        c0 += q[1] * weight[1], c1 += q[1] * weight[5];
        c2 += q[1] * weight[9], c3 += q[1] * weight[13];
        c0 += q[2] * weight[2], c1 += q[2] * weight[6];
        c2 += q[2] * weight[10], c3 += q[2] * weight[14];
        c0 += q[3] * weight[3], c1 += q[3] * weight[7];
        c2 += q[3] * weight[11], c3 += q[3] * weight[15];
    }
    sum[0] = c0, sum[1] = c1, sum[2] = c2, sum[3] = c3;
}

VIT__INLINE void vit__gemm_i8_body(vit__dot_i8_fn *dot, float *tile, const vit__operands *o) {
    const unsigned char *a = o->a, *const tail = o->panel + (size_t)vit__quads(o->depth) * 64;
    int32_t sum[16];
    int rows = o->rows, l;
    for (; rows--; a += o->lda, tile += vit__tile_step(o)) {
        for (l = 0; l < 16; l += 4) dot(sum + l, a + VIT__U8_HEADER, o->panel + 4 * l, o->depth);
        vit__dequantise_row(tile, sum, a, tail);
    }
}

/* Widens a group of int4 to quads of bytes in the order of int8, and loads its scales. */
VIT__INLINE void vit__widen_i4(unsigned char *quads, float *scale, const unsigned char *group) {
    uint16_t half;
    int i;
    for (i = 0; i < 16; i++) {
        memcpy(&half, group + 2 * i, 2);
        scale[i] = vit__f16_to_f32(vit__le16(half));
    }
    for (i = 0; i < 256; i++) {
        quads[i] = (unsigned char)((group[32 + i] & 15) - 8);
        quads[256 + i] = (unsigned char)((group[32 + i] >> 4) - 8);
    }
}

VIT__INLINE void vit__gemm_i4_body(vit__dot_i8_fn *dot, float *tile, const vit__operands *o) {
    const unsigned char *group = o->panel;
    uint32_t wide[4 * 32];
    unsigned char *const quads = (unsigned char *)wide;
    float scale[16];
    int32_t sum[16];
    int k, r, l;
    for (r = 0; r < o->rows; r++) memset(tile + (size_t)r * o->ldt, 0, sizeof sum);
    for (k = 0; k < o->depth; k += 32, group += VIT__I4_GROUP) {
        vit__widen_i4(quads, scale, group);
        for (r = 0; r < o->rows; r++) {
            const unsigned char *const q = o->a + (size_t)r * o->lda + VIT__U8_HEADER + k;
            float *const to = tile + (size_t)r * o->ldt;
            for (l = 0; l < 16; l += 4) dot(sum + l, q, quads + 4 * l, 32);
            for (l = 0; l < 16; l++) to[l] = vit__fma_inline((float)sum[l], scale[l], to[l]);
        }
    }
    vit__finish_i4_scalar(tile, o, group, 0);
}

#if VIT__HAS_I16
/* sum + the product of the lower halves + the product of the upper halves, as int16_t. */
VIT__INLINE uint32_t vit__add_pair(uint32_t sum, uint32_t x, uint32_t w) {
#    if VIT__SMLAD
    __asm__("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(x), "r"(w));
    return sum;
#    else
    return sum + (uint32_t)((int16_t)(x & 0xffffu) * (int16_t)(w & 0xffffu)) +
           (uint32_t)((int16_t)(x >> 16) * (int16_t)(w >> 16));
#    endif
}

/* Multiplies pairs of 16 bits for >>attention; the sums are exact in 32 bits. */
VIT__ROW void vit__gemm_i16_scalar(float *tile, const vit__operands *o) {
    const unsigned char *a = o->a;
    int rows = o->rows, k, l;
    for (; rows--; a += o->lda, tile += vit__tile_step(o)) {
        const unsigned char *w = o->panel;
        uint32_t sum[16] = { 0 }; /* wraps for rows with NaN, but their step restores the NaN */
        for (k = 0; k < o->depth; k += 2, w += 64) {
            const uint32_t x = vit__u32(a + 2 * k);
            for (l = 0; l < 16; l++) sum[l] = vit__add_pair(sum[l], x, vit__u32(w + 4 * l));
        }
        for (l = 0; l < 16; l++) tile[l] = (float)(int32_t)sum[l];
    }
}
#endif

VIT__ROW void vit__gemm_i8_scalar(float *tile, const vit__operands *o) {
    if (VIT__HAS_INT8) vit__gemm_i8_body(vit__dot_i8_scalar, tile, o);
}
VIT__ROW void vit__gemm_i4_scalar(float *tile, const vit__operands *o) {
    if (VIT__HAS_INT4) vit__gemm_i4_body(vit__dot_i8_scalar, tile, o);
}

#endif /* VIT__SCALAR || VIT__CORTEX */

#if VIT__SCALAR
VIT__KERNELS(scalar, VIT_ISA_SCALAR, 1, scalar,
             (vit__gemm_f32_scalar, 4, VIT__FORM_F32, VIT__NO_SHAPE),
             (vit__gemm_f16_scalar, 4, VIT__FORM_F32, VIT__NO_SHAPE),
             (vit__gemm_bf16_scalar, 4, VIT__FORM_ROUNDED, VIT__NO_SHAPE),
             (vit__gemm_i8_scalar, 4, VIT__FORM_U8, VIT__NO_SHAPE),
             (vit__gemm_i4_scalar, 4, VIT__FORM_U8, VIT__NO_SHAPE),
             (vit__gemm_i16_scalar, 4, VIT__FORM_I16, VIT__NO_SHAPE));
#endif

/* --- x86 -------------------------------------------------------------------------- */

#if VIT__SSE2 || VIT__AVX2

/* Words for registers of all widths: VIT__PS(add) is _mm_add_ps, _mm256_add_ps or _mm512_add_ps, by
   the tier's MM and BITS. */
#    define VIT__RF VIT__PASTE(__m, VIT__BITS)
#    define VIT__RI VIT__PASTE(VIT__RF, i)
#    define VIT__PS(op) VIT__PASTE(VIT__MM, _##op##_ps)
#    define VIT__EPI32(op) VIT__PASTE(VIT__MM, _##op##_epi32)
#    define VIT__EPI16(op) VIT__PASTE(VIT__MM, _##op##_epi16)
#    define VIT__EPI8(op) VIT__PASTE(VIT__MM, _##op##_epi8)
#    define VIT__AS_I(a) VIT__PASTE(VIT__MM, VIT__PASTE(_castps_si, VIT__BITS))(a)
#    define VIT__AS_F(a) VIT__PASTE(VIT__MM, VIT__PASTE(VIT__PASTE(_castsi, VIT__BITS), _ps))(a)
#    define VIT__F_LOAD(p) VIT__PS(loadu)(p)
#    define VIT__F_STORE(p, a) VIT__PS(storeu)(p, a)
#    define VIT__F_SPLAT(x) VIT__PS(set1)(x)
#    define VIT__F(op) VIT__PS(op)
#    define VIT__F_BITS(x) VIT__AS_F(VIT__EPI32(set1)((int)(x)))
#    define VIT__F_IADD(a, b) VIT__AS_F(VIT__EPI32(add)(VIT__AS_I(a), VIT__AS_I(b)))
#    define VIT__F_SHL(a, n) VIT__AS_F(VIT__EPI32(slli)(VIT__AS_I(a), (VIT__COUNT)(n)))
#    define VIT__F_SHR(a, n) VIT__AS_F(VIT__EPI32(srli)(VIT__AS_I(a), (VIT__COUNT)(n)))
#    define VIT__I_ZERO() VIT__EPI32(set1)(0)
#    define VIT__I_SPLAT(x) VIT__EPI32(set1)(x)
#    define VIT__I_LOAD(p) VIT__AS_I(VIT__PS(loadu)((const float *)(const void *)(p)))
#    define VIT__I_STORE(p, a) VIT__PS(storeu)((float *)(void *)(p), VIT__AS_F(a))
#    define VIT__I_ADD(a, b) VIT__EPI32(add)(a, b)
#    define VIT__I_SUB(a, b) VIT__EPI32(sub)(a, b)
#    define VIT__I_AND(a, b) VIT__AS_I(VIT__PS(and)(VIT__AS_F(a), VIT__AS_F(b)))
#    define VIT__I_SHL(a, n) VIT__EPI32(slli)(a, n)
#    define VIT__I_SHR(a, n) VIT__EPI32(srli)(a, n)
#    define VIT__I_TO_F(a) VIT__PS(cvtepi32)(a)
#    define VIT__LINES_ADD(c, pairs, w)                                                           \
        VIT__EPI32(add)(c, VIT__EPI16(madd)(pairs, VIT__EPI32(set1)(w)))
#    define VIT__X VIT__RF
#    define VIT__XI VIT__RI
#    define VIT__XI_LOAD(x, p) x = VIT__EPI32(set1)(vit__load32(p));
#    define VIT__EVEN(x) VIT__I_AND(x, VIT__I_SPLAT(0x00ff00ff))
#    define VIT__ODD(x) VIT__EPI16(srli)(x, 8)
#    define VIT__SUB8(a, b) VIT__EPI8(sub)(a, b)
#    define VIT__SHL16(a) VIT__EPI16(slli)(a, 8)
#    define VIT__SRA16(a) VIT__EPI16(srai)(a, 8)

VIT__INLINE __m128i vit__load_i_sse2(const void *p) { return _mm_loadu_si128((const __m128i *)p); }

#if VIT__AVX2

/* --- AVX2 + FMA + F16C ------------------------------------------------------------ */

VIT__TARGET_BEGIN(VIT__TARGET_HASWELL VIT__TARGET_WIDTH(256))

VIT__INLINE __m256i vit__load_i_avx2(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
VIT__INLINE void vit__store_i_avx2(void *p, __m256i a) { _mm256_storeu_si256((__m256i *)p, a); }

/* The lower byte of each lane, in the lower half. */
VIT__INLINE __m128i vit__bytes_avx2(__m256 a, __m256 b) {
    const __m256i byte = _mm256_set1_epi32(255);
    const __m256i x = _mm256_and_si256(_mm256_castps_si256(a), byte);
    const __m256i y = _mm256_and_si256(_mm256_castps_si256(b), byte);
    const __m256i half = _mm256_permute4x64_epi64(_mm256_packus_epi32(x, y), 0xd8);
    return _mm_packus_epi16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

VIT__INLINE __m256i vit__halves_avx2(__m256 a, __m256 b) {
    const __m256i mask = _mm256_set1_epi32(0xffff);
    const __m256i x = _mm256_and_si256(_mm256_castps_si256(a), mask);
    const __m256i y = _mm256_and_si256(_mm256_castps_si256(b), mask);
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(x, y), 0xd8);
}

VIT__INLINE __m256i vit__lines_avx2(const uint8_t *p, const uint8_t *q) {
    return _mm256_cvtepu8_epi16(
        _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(const void *)p),
                          _mm_loadl_epi64((const __m128i *)(const void *)q)));
}

#    define VIT__TIER avx2
#    define VIT__STAMP                                                                            \
        (VIT__STAMP_ROWS | VIT__STAMP_FLOATS | VIT__STAMP_BYTES | VIT__STAMP_MORE)
#    define VIT__LANES 8
#    define VIT__COUNT int
#    define VIT__MM _mm256
#    define VIT__BITS 256
#    define VIT__F_FMA1(a, b, c) VIT__FMA(a, b, c)
#    define VIT__F_FIRST(a) _mm256_cvtss_f32(a)
#    define VIT__F_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#    define VIT__F_NAN(a) _mm256_cmp_ps(a, a, _CMP_UNORD_Q)
#    define VIT__F_SELECT(mask, a, b) _mm256_blendv_ps(b, a, mask)
#    define VIT__SWAPS(op, x)                                                                     \
        x = op(x, _mm256_permute2f128_ps(x, x, 1));                                               \
        x = op(x, _mm256_permute_ps(x, 0x4e));                                                    \
        x = op(x, _mm256_permute_ps(x, 0xb1));
#    define VIT__STORE_BYTES(p, v)                                                                \
        _mm_storeu_si128((__m128i *)(void *)(p), vit__bytes_avx2(v.r0, v.r1));
#    define VIT__STORE_HALVES(p, v) vit__store_i_avx2(p, vit__halves_avx2(v.r0, v.r1));
#    define VIT__I_MUL(a, b) _mm256_mullo_epi32(a, b)
#    define VIT__LINES(p, stride, n) vit__lines_avx2(p + 8 * n, p + stride + 8 * n)
#    define VIT__W_F16(p) _mm256_cvtph_ps(vit__load_i_sse2(p))
/* A panel streams from the L2 cache; hardware fetches it into L1 too late. */
#    undef VIT__STREAM
#    define VIT__STREAM(at) _mm_prefetch((const char *)((at) + 1024), _MM_HINT_T0);
/* While three panels are in use, the next three are prefetched to the L2 cache, because CPUs do not
   prefetch across pages. Each tile of rows prefetches an eighth of a panel, in three overlapping
   parts. */
#    undef VIT__AHEAD
#    define VIT__AHEAD(i) _mm_prefetch((const char *)(ahead + 4 * (size_t)(i)), _MM_HINT_T1);
#    define VIT__X_LOAD(x, p) x = VIT__AS_F(_mm256_set1_epi32(vit__load32(p)));
#    define VIT__MAC(c, x, w) c = _mm256_fmadd_ps(x, w, c);
#    define VIT__DOT16(c, x, w) VIT__ADD("vpaddd", _mm256_add_epi32, c, _mm256_madd_epi16(x, w))
/* vpmaddubsw saturates at 16 bits, and 2 * 255 * 127 > 32767. So only files with section "fits16"
   (>>format) may use it. Every row loads the second quad from memory again, because a compiler
   would otherwise keep it in a register, of which there are too few. */
#    define VIT__TWO_QUADS(c, x, y, w, u)                                                         \
        {                                                                                         \
            __m256i second;                                                                       \
            VIT__MADDUBS_AVX2(second, y, (const __m256i *)(const void *)(u))                      \
            second = _mm256_add_epi16(_mm256_maddubs_epi16(x, w), second);                        \
            VIT__DOT16(c, second, _mm256_set1_epi16(1))                                           \
        }
/* For int4 only: the eight quads of a group are added in 16 bits, 16 * 255 * 8 <= 32767. */
#    define VIT__DOT8(c, x, w)                                                                    \
        VIT__ADD("vpaddw", _mm256_add_epi16, c, _mm256_maddubs_epi16(x, w))
#    define VIT__WIDE_BYTES 1
#    define VIT__WIDENS_I4 1
#    undef VIT__GROUP_SUM
#    define VIT__GROUP_SUM(c, n) _mm256_madd_epi16(c, _mm256_set1_epi16(1))
#    include VIT__THIS_FILE

VIT__TILES_2(f32_avx2, VIT_F32, float_tile, avx2, VIT__TILE_F32, 6, 2)
VIT__TILE_FN(vit__tile_f16_avx2, float_tile, avx2, VIT__TILE_F16, 6, 2)
VIT__TILE_FN(vit__tile_bf16_avx2, float_tile, avx2, VIT__TILE_BF16, 6, 2)
VIT__TILES_2(i16_avx2, VIT__I16, byte_tile, avx2, VIT__TILE_DOT16, 6, 2)
VIT__TILES_2(i8_two_avx2, VIT_I8, byte_tile, avx2, VIT__TILE_TWO, 4, 2)
VIT__TILES_2(i8_split_avx2, VIT_I8, byte_tile, avx2, VIT__TILE_SPLIT, 4, 2)
VIT__TILE_FN(vit__tile_i4_avx2, group_tile, avx2, VIT__TILE_DOT8, 6, 2)

static const vit__shape vit__shape_f16_avx2 = VIT__SHAPE(VIT_F16, 6, vit__tile_f16_avx2);
static const vit__shape vit__shape_bf16_avx2 = VIT__SHAPE(VIT_BF16, 6, vit__tile_bf16_avx2);
static const vit__shape vit__shape_i4_avx2 =
    VIT__WIDE_SHAPE(VIT_I4, 6, vit__tile_i4_avx2, 1, vit__widen_i4_avx2, vit__finish_of_i4_avx2);

static void vit__gemm_i8_avx2(float *tile, const vit__operands *o) {
    const int is_two = o->fits16 && vit__quads(o->depth) % 2 == 0;
    vit__gemm_shape(is_two ? &vit__shape_i8_two_avx2 : &vit__shape_i8_split_avx2, tile, o);
}

VIT__TARGET_END

VIT__KERNELS(avx2, VIT_ISA_AVX2, 3, avx2,
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f32_avx2),
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f16_avx2),
             (vit__gemm_tiles, 6, VIT__FORM_ROUNDED, &vit__shape_bf16_avx2),
             (vit__gemm_i8_avx2, 12, VIT__FORM_U8, VIT__NO_SHAPE),
             (vit__gemm_tiles, 48, VIT__FORM_U8, &vit__shape_i4_avx2),
             (vit__gemm_tiles, 6, VIT__FORM_I16, &vit__shape_i16_avx2));

/* --- AVX-VNNI: vpdpbusd and vpdpwssd for AVX2 ------------------------------------- */

#    if VIT__AVXVNNI

VIT__TARGET_BEGIN(VIT__TARGET_HASWELL ",avxvnni" VIT__TARGET_WIDTH(256))

/* vpdpbusd does not saturate. {vex} selects the encoding of AVX-VNNI over that of AVX-512. It has
   the registers 0 to 15 ("x"), also where a build's flags add those of AVX-512. */
#        define VIT__TIER avxvnni
#        define VIT__STAMP (VIT__STAMP_BYTES | VIT__STAMP_MORE)
#        undef VIT__WIDE_BYTES
#        undef VIT__WIDENS_I4
#        undef VIT__TWO_QUADS
#        undef VIT__DOT8
#        undef VIT__DOT16
#        undef VIT__GROUP_SUM
#        define VIT__DOT8(c, x, w)                                                            \
            VIT__DOT("x", "%{vex%} vpdpbusd", _mm256_dpbusd_avx_epi32, c, x, w)
#        define VIT__DOT16(c, x, w)                                                            \
            VIT__DOT("x", "%{vex%} vpdpwssd", _mm256_dpwssd_avx_epi32, c, x, w)
#        include VIT__THIS_FILE

VIT__TILES_2(i16_avxvnni, VIT__I16, byte_tile, avxvnni, VIT__TILE_DOT16, 6, 2)
VIT__TILES_2(i8_avxvnni, VIT_I8, byte_tile, avxvnni, VIT__TILE_DOT8, 6, 2)
VIT__TILE_FN(vit__tile_i4_avxvnni, group_tile, avxvnni, VIT__TILE_DOT8, 6, 2)

VIT__TARGET_END

static const vit__shape vit__shape_i4_avxvnni =
    VIT__WIDE_SHAPE(VIT_I4, 6, vit__tile_i4_avxvnni, 1, vit__widen_i4_avx2, vit__finish_of_i4_avx2);

VIT__KERNELS(avxvnni, VIT_ISA_AVX_VNNI, 3, avx2,
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f32_avx2),
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f16_avx2),
             (vit__gemm_tiles, 6, VIT__FORM_ROUNDED, &vit__shape_bf16_avx2),
             (vit__gemm_tiles, 6, VIT__FORM_U8, &vit__shape_i8_avxvnni),
             (vit__gemm_tiles, 48, VIT__FORM_U8, &vit__shape_i4_avxvnni),
             (vit__gemm_tiles, 6, VIT__FORM_I16, &vit__shape_i16_avxvnni));

#    endif /* VIT__AVXVNNI */

#    define VIT__TIER none /* undefines the words */
#    define VIT__STAMP 0
#    include VIT__THIS_FILE
#endif /* VIT__AVX2 */

/* --- AVX-512 F BW DQ VL; integers take AVX2's kernels, up to VNNI ----------------- */

#if VIT__AVX512

VIT__TARGET_BEGIN(VIT__TARGET_SKYLAKE VIT__TARGET_WIDTH(512))

VIT__INLINE __m512i vit__lines_avx512(const uint8_t *p, const uint8_t *q) {
    const __m128i first = vit__load_i_sse2(p), second = vit__load_i_sse2(q);
    const __m256i low = _mm256_castsi128_si256(_mm_unpacklo_epi8(first, second));
    return _mm512_cvtepu8_epi16(
        _mm256_inserti128_si256(low, _mm_unpackhi_epi8(first, second), 1));
}

#    define VIT__TIER avx512
#    define VIT__STAMP (VIT__STAMP_ROWS | VIT__STAMP_FLOATS | VIT__STAMP_MORE)
#    define VIT__LANES 16
#    define VIT__COUNT unsigned
#    define VIT__MM _mm512
#    define VIT__BITS 512
#    define VIT__F_FMA1(a, b, c) VIT__FMA(a, b, c)
#    define VIT__F_FIRST(a) _mm_cvtss_f32(_mm512_castps512_ps128(a))
#    define VIT__F_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#    define VIT__F_NAN(a)                                                                         \
        VIT__AS_F(_mm512_maskz_set1_epi32(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), -1))
#    define VIT__F_SELECT(mask, a, b)                                                             \
        _mm512_mask_blend_ps(_mm512_test_epi32_mask(VIT__AS_I(mask), VIT__AS_I(mask)), b, a)
#    define VIT__SWAPS(op, x)                                                                     \
        x = op(x, _mm512_shuffle_f32x4(x, x, 0x4e));                                              \
        x = op(x, _mm512_shuffle_f32x4(x, x, 0xb1));                                              \
        x = op(x, _mm512_shuffle_ps(x, x, 0x4e));                                                 \
        x = op(x, _mm512_shuffle_ps(x, x, 0xb1));
#    define VIT__STORE_BYTES(p, v)                                                                \
        _mm_storeu_si128((__m128i *)(void *)(p), _mm512_cvtepi32_epi8(VIT__AS_I(v.r0)));
#    define VIT__STORE_HALVES(p, v)                                                               \
        vit__store_i_avx2(p, _mm512_cvtepi32_epi16(VIT__AS_I(v.r0)));
#    define VIT__I_MUL(a, b) _mm512_mullo_epi32(a, b)
#    define VIT__LINES(p, stride, n) vit__lines_avx512(p + 16 * n, p + stride + 16 * n)
#    define VIT__W_F16(p) _mm512_cvtph_ps(vit__load_i_avx2(p))
#    undef VIT__AHEAD
#    define VIT__AHEAD(i) _mm_prefetch((const char *)(ahead + 8 * (size_t)(i)), _MM_HINT_T1);
#    define VIT__X_LOAD(x, p) x = VIT__AS_F(_mm512_set1_epi32(vit__load32(p)));
#    define VIT__MAC(c, x, w) c = _mm512_fmadd_ps(x, w, c);
#    include VIT__THIS_FILE

VIT__TILES_4(f32_avx512, VIT_F32, float_tile, avx512, VIT__TILE_F32)
VIT__TILE_FN(vit__tile_f16_avx512, float_tile, avx512, VIT__TILE_F16, 8, 3)
VIT__TILE_FN(vit__tile_f16_avx512_x16, float_tile, avx512, VIT__TILE_F16, 8, 1)
VIT__TILE_FN(vit__tile_bf16_avx512, float_tile, avx512, VIT__TILE_BF16, 8, 3)
VIT__TILE_FN(vit__tile_bf16_avx512_x16, float_tile, avx512, VIT__TILE_BF16, 8, 1)

VIT__TARGET_END

static const vit__shape vit__shape_f16_avx512 = {
    VIT_F16, 8, 3, vit__tile_f16_avx512, NULL, vit__tile_f16_avx512, vit__tile_f16_avx512_x16,
    0, 0, NULL, NULL
};
static const vit__shape vit__shape_bf16_avx512 = {
    VIT_BF16, 8, 3, vit__tile_bf16_avx512, NULL, vit__tile_bf16_avx512, vit__tile_bf16_avx512_x16,
    0, 0, NULL, NULL
};

VIT__KERNELS(avx512, VIT_ISA_AVX512, 3, avx512,
             (vit__gemm_tiles, 8, VIT__FORM_F32, &vit__shape_f32_avx512),
             (vit__gemm_tiles, 8, VIT__FORM_F32, &vit__shape_f16_avx512),
             (vit__gemm_tiles, 8, VIT__FORM_ROUNDED, &vit__shape_bf16_avx512),
             (vit__gemm_i8_avx2, 12, VIT__FORM_U8, VIT__NO_SHAPE),
             (vit__gemm_tiles, 48, VIT__FORM_U8, &vit__shape_i4_avx2),
             (vit__gemm_tiles, 6, VIT__FORM_I16, &vit__shape_i16_avx2));

/* --- AVX-512 VNNI: dot products of quads and of pairs ----------------------------- */

VIT__TARGET_BEGIN(VIT__TARGET_SKYLAKE ",avx512vnni" VIT__TARGET_WIDTH(512))

#    define VIT__TIER avx512_vnni
#    define VIT__STAMP (VIT__STAMP_BYTES | VIT__STAMP_MORE)
#    define VIT__DOT8(c, x, w) VIT__DOT("v", "vpdpbusd", _mm512_dpbusd_epi32, c, x, w)
#    define VIT__DOT16(c, x, w) VIT__DOT("v", "vpdpwssd", _mm512_dpwssd_epi32, c, x, w)
#    include VIT__THIS_FILE

VIT__TILES_4(i16_avx512, VIT__I16, byte_tile, avx512_vnni, VIT__TILE_DOT16)
VIT__TILES_4(i8_avx512, VIT_I8, byte_tile, avx512_vnni, VIT__TILE_DOT8)
VIT__TILE_FN(vit__tile_i4_avx512, group_tile, avx512_vnni, VIT__TILE_DOT8, 8, 3)
VIT__TILE_FN(vit__tile_i4_avx512_x16, group_tile, avx512_vnni, VIT__TILE_DOT8, 8, 1)

VIT__TARGET_END

static const vit__shape vit__shape_i4_avx512 = {
    VIT_I4, 8, 3, vit__tile_i4_avx512, NULL, vit__tile_i4_avx512, vit__tile_i4_avx512_x16,
    VIT__GROUPS_WIDE * 32, 1, vit__widen_i4_avx2, vit__finish_of_i4_avx512
};

VIT__KERNELS(avx512_vnni, VIT_ISA_AVX512_VNNI, 3, avx512,
             (vit__gemm_tiles, 8, VIT__FORM_F32, &vit__shape_f32_avx512),
             (vit__gemm_tiles, 8, VIT__FORM_F32, &vit__shape_f16_avx512),
             (vit__gemm_tiles, 8, VIT__FORM_ROUNDED, &vit__shape_bf16_avx512),
             (vit__gemm_tiles, 8, VIT__FORM_U8, &vit__shape_i8_avx512),
             (vit__gemm_tiles, 48, VIT__FORM_U8, &vit__shape_i4_avx512),
             (vit__gemm_tiles, 8, VIT__FORM_I16, &vit__shape_i16_avx512));

/* --- AVX-512 BF16 ----------------------------------------------------------------- */

#    if VIT__AVX512BF16

VIT__TARGET_BEGIN(VIT__TARGET_SKYLAKE ",avx512vnni,avx512bf16" VIT__TARGET_WIDTH(512))

#        if !VIT__GNU
VIT__INLINE __m512 vit__dot_bf16(__m512 c, __m512 x, __m512 w) {
    __m512bh a, b;
    memcpy(&a, &x, sizeof a);
    memcpy(&b, &w, sizeof b);
    return _mm512_dpbf16_ps(c, a, b);
}
#        endif

/* vdpbf16ps: c[l] = fma(x[2 * l], w[2 * l], fma(x[2 * l + 1], w[2 * l + 1], c[l])). Operands and
   results below 2^-126 count as zero. */
#        define VIT__TIER avx512_bf16
#        define VIT__STAMP (VIT__STAMP_FLOATS | VIT__STAMP_MORE)
#        undef VIT__W_F16
#        undef VIT__MAC
#        define VIT__MAC(c, x, w) VIT__DOT("v", "vdpbf16ps", vit__dot_bf16, c, x, w)
#        include VIT__THIS_FILE

VIT__TILES_4(dot_avx512, VIT_BF16, float_tile, avx512_bf16, VIT__TILE_DOT)

VIT__TARGET_END

VIT__KERNELS(avx512_bf16, VIT_ISA_AVX512_BF16, 3, avx512,
             (vit__gemm_tiles, 8, VIT__FORM_F32, &vit__shape_f32_avx512),
             (vit__gemm_tiles, 8, VIT__FORM_F32, &vit__shape_f16_avx512),
             (vit__gemm_tiles, 8, VIT__FORM_BF16, &vit__shape_dot_avx512),
             (vit__gemm_tiles, 8, VIT__FORM_U8, &vit__shape_i8_avx512),
             (vit__gemm_tiles, 48, VIT__FORM_U8, &vit__shape_i4_avx512),
             (vit__gemm_tiles, 8, VIT__FORM_I16, &vit__shape_i16_avx512));

#    endif /* VIT__AVX512BF16 */

#    define VIT__TIER none
#    define VIT__STAMP 0
#    include VIT__THIS_FILE
#endif /* VIT__AVX512 */

/* --- SSE2 ------------------------------------------------------------------------- */

#if VIT__SSE2

/* Four f16 as f32: exponent and mantissa are shifted into place, and a multiplication by 2^112
   corrects the bias (127 instead of 15). This is exact, even for subnormals. Infinity and NaN come
   out as 65536 or more, and get their exponent back. */
VIT__INLINE __m128 vit__f16_sse2(const unsigned char *p) {
    const __m128i four = _mm_loadl_epi64((const __m128i *)(const void *)p);
    const __m128i half = _mm_unpacklo_epi16(_mm_setzero_si128(), four); /* in the upper halves */
    const __m128i sign = _mm_and_si128(half, _mm_set1_epi32((int)0x80000000u));
    const __m128i size = _mm_srli_epi32(_mm_slli_epi32(half, 1), 4);
    const __m128 x = _mm_mul_ps(_mm_castsi128_ps(size), _mm_set1_ps(5.1922968585348276e33f));
    const __m128 special = _mm_cmpge_ps(x, _mm_set1_ps(65536.0f));
    const __m128 exponent = _mm_and_ps(special, _mm_castsi128_ps(_mm_set1_epi32(0x7f800000)));
    return _mm_or_ps(_mm_or_ps(x, exponent), _mm_castsi128_ps(sign));
}

/* Products modulo 2^32, two lanes at a time. */
VIT__INLINE __m128i vit__mul_i_sse2(__m128i a, __m128i b) {
    const __m128i even = _mm_mul_epu32(a, b);
    const __m128i odd = _mm_mul_epu32(_mm_srli_epi64(a, 32), _mm_srli_epi64(b, 32));
    return _mm_unpacklo_epi32(_mm_shuffle_epi32(even, 0x08), _mm_shuffle_epi32(odd, 0x08));
}

VIT__INLINE __m128i vit__lines_sse2(const uint8_t *p, const uint8_t *q) {
    const __m128i both = _mm_unpacklo_epi8(_mm_cvtsi32_si128(vit__load32(p)),
                                           _mm_cvtsi32_si128(vit__load32(q)));
    return _mm_unpacklo_epi8(both, _mm_setzero_si128());
}

#    define VIT__LOW16_SSE2(a) _mm_srai_epi32(_mm_slli_epi32(VIT__AS_I(a), 16), 16)
#    define VIT__LOW8_SSE2(a) _mm_and_si128(VIT__AS_I(a), _mm_set1_epi32(255))

#    define VIT__TIER sse2
#    define VIT__STAMP (VIT__STAMP_ROWS | VIT__STAMP_FLOATS | VIT__STAMP_BYTES)
#    define VIT__LANES 4
#    define VIT__COUNT int
#    define VIT__MM _mm
#    define VIT__BITS 128
#    define VIT__F_FMA1(a, b, c) vit__multiply_add(a, b, c)
#    define VIT__F_FIRST(a) _mm_cvtss_f32(a)
#    define VIT__F_FMA(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#    define VIT__F_NAN(a) _mm_cmpunord_ps(a, a)
#    define VIT__F_SELECT(mask, a, b) _mm_or_ps(_mm_and_ps(mask, a), _mm_andnot_ps(mask, b))
#    define VIT__SWAPS(op, x)                                                                     \
        x = op(x, _mm_movehl_ps(x, x));                                                           \
        x = op(x, _mm_shuffle_ps(x, x, 0xb1));
#    define VIT__STORE_BYTES(p, v)                                                                \
        _mm_storeu_si128(                                                                         \
            (__m128i *)(void *)(p),                                                               \
            _mm_packus_epi16(_mm_packs_epi32(VIT__LOW8_SSE2(v.r0), VIT__LOW8_SSE2(v.r1)),         \
                             _mm_packs_epi32(VIT__LOW8_SSE2(v.r2), VIT__LOW8_SSE2(v.r3))));
#    define VIT__STORE_HALVES(p, v)                                                               \
        _mm_storeu_si128((__m128i *)(void *)(p),                                                  \
                         _mm_packs_epi32(VIT__LOW16_SSE2(v.r0), VIT__LOW16_SSE2(v.r1)));          \
        _mm_storeu_si128((__m128i *)(void *)((p) + 8),                                            \
                         _mm_packs_epi32(VIT__LOW16_SSE2(v.r2), VIT__LOW16_SSE2(v.r3)));
#    define VIT__I_MUL(a, b) vit__mul_i_sse2(a, b)
#    define VIT__LINES(p, stride, n) vit__lines_sse2(p + 4 * n, p + stride + 4 * n)
/* Every row loads the weights from memory again, because a compiler would otherwise keep them in
   registers, of which there are too few. */
#    undef VIT__W
#    define VIT__W(n) _mm_load_ps((const float *)(const void *)(w + 16 * n))
#    undef VIT__WI
#    define VIT__WI(n) _mm_load_si128((const __m128i *)(const void *)(w + 16 * n))
#    undef VIT__REUSE
#    define VIT__REUSE(w) VIT__HIDE(w)
#    define VIT__W_F16(p) vit__f16_sse2(p)
#    define VIT__X_LOAD(x, p)                                                                     \
        x = _mm_set1_ps(vit__load_float(p));                                                      \
        VIT__HIDE_SSE2(x)
#    define VIT__MAC(c, x, w) VIT__ADD_F32_SSE2(c, _mm_mul_ps(x, w))
#    undef VIT__SUM_START
#    define VIT__SUM_START(r, n) VIT__SUM_FROM_TILE(r, n)
#    define VIT__WIDE_BYTES 1
#    define VIT__WIDENS_I4 1
#    define VIT__WIDE_I4 1 /* tiles of int4 take 16 bits */
#    define VIT__WIDENS 1  /* no widening instruction: widens a block once for many rows */
#    define VIT__DOT16(c, x, w) VIT__ADD_SSE2(c, _mm_madd_epi16(x, w))
#    include VIT__THIS_FILE

/* 12 sums of 16 registers on 64-bit CPUs, 4 of 8 on others. */
#    define VIT__HEIGHT_SSE2 (VIT__X86_64 ? 3 : 1)
VIT__TILE_FN(vit__tile_more_sse2, float_tile, sse2, VIT__TILE_MORE, VIT__HEIGHT_SSE2, 4)
VIT__TILE_FN(vit__tile_odd_sse2, float_tile, sse2, VIT__TILE_ODD, VIT__HEIGHT_SSE2, 4)
VIT__TILE_FN(vit__tile_wide_sse2, byte_tile, sse2, VIT__TILE_WIDE, VIT__HEIGHT_SSE2, 4)
VIT__TILE_FN(vit__tile_i4_sse2, group_tile, sse2, VIT__TILE_WIDE, VIT__HEIGHT_SSE2, 4)

static const vit__shape vit__shape_f32_sse2 =
    VIT__MORE_SHAPE(VIT_F32, VIT__HEIGHT_SSE2, vit__tile_more_sse2);
static const vit__shape vit__shape_f16_sse2 =
    VIT__WIDE_SHAPE(VIT_F16, VIT__HEIGHT_SSE2, vit__tile_more_sse2, 4, vit__widen_f16_sse2, NULL);
static const vit__shape vit__shape_bf16_sse2 =
    VIT__WIDE_SHAPE(VIT_BF16, VIT__HEIGHT_SSE2, vit__tile_odd_sse2, 4, vit__widen_bf16_sse2, NULL);
static const vit__shape vit__shape_i8_sse2 =
    VIT__WIDE_SHAPE(VIT_I8, VIT__HEIGHT_SSE2, vit__tile_wide_sse2, 1, vit__widen_i8_sse2,
                    vit__finish_i8_sse2);
static const vit__shape vit__shape_i4_sse2 =
    VIT__WIDE_SHAPE(VIT_I4, VIT__HEIGHT_SSE2, vit__tile_i4_sse2, 1, vit__widen_i4_sse2,
                    vit__finish_of_i4_sse2);

VIT__KERNELS(sse2, VIT_ISA_SSE2, 3, sse2,
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f32_sse2),
             (vit__gemm_tiles, 24, VIT__FORM_F32, &vit__shape_f16_sse2),
             (vit__gemm_tiles, 12, VIT__FORM_ROUNDED, &vit__shape_bf16_sse2),
             (vit__gemm_tiles, 24, VIT__FORM_U8, &vit__shape_i8_sse2),
             (vit__gemm_tiles, 24, VIT__FORM_U8, &vit__shape_i4_sse2),
             VIT__IN_F32);

#endif /* VIT__SSE2 */
#endif /* VIT__SSE2 || VIT__AVX2 */


/* --- 64-bit ARM ------------------------------------------------------------------- */

#if VIT__NEON

/* NEON multiplies signed bytes, so rows have FORM_S8. gcc does not inline a function into a region
   whose instruction set is no larger than the function's own, and "armv8.2-a" may be no larger than
   that of the file. So tiles call only functions of >>body. */

VIT__INLINE int16x8_t vit__lines_neon(const uint8_t *p, const uint8_t *q) {
    const int32x2_t first = vdup_n_s32(vit__load32(p));
    const int32x2_t both = vset_lane_s32(vit__load32(q), first, 1);
    return vreinterpretq_s16_u16(vmovl_u8(vreinterpret_u8_s32(both)));
}
/* c[l] += p[l] * w[0] + p[4 + l] * w[1] */
VIT__INLINE int32x4_t vit__lines_add_neon(int32x4_t c, int16x8_t p, int32_t w) {
    const int16x4_t weights = vreinterpret_s16_s32(vdup_n_s32(w));
    c = vmlal_lane_s16(c, vget_low_s16(p), weights, 0);
    return vmlal_high_lane_s16(c, p, weights, 1);
}

#    define VIT__U_NEON(a) vreinterpretq_u32_f32(a)
#    define VIT__F_NEON(a) vreinterpretq_f32_u32(a)
#    define VIT__B_NEON(a) vreinterpretq_s8_s32(a)
#    define VIT__HALVES_NEON(a, b)                                                                \
        vcombine_u16(vmovn_u32(VIT__U_NEON(a)), vmovn_u32(VIT__U_NEON(b)))

#    define VIT__WORD_NEON(name, value)                                                           \
        VIT__INLINE float32x4_t vit__neon_##name(float32x4_t a, float32x4_t b) { return value; }
VIT__WORD_NEON(add, vaddq_f32(a, b))
VIT__WORD_NEON(sub, vsubq_f32(a, b))
VIT__WORD_NEON(mul, vmulq_f32(a, b))
VIT__WORD_NEON(div, vdivq_f32(a, b))
VIT__WORD_NEON(min, vbslq_f32(vcltq_f32(a, b), a, b))
VIT__WORD_NEON(max, vbslq_f32(vcgtq_f32(a, b), a, b))
VIT__WORD_NEON(and, VIT__F_NEON(vandq_u32(VIT__U_NEON(a), VIT__U_NEON(b))))
VIT__WORD_NEON(or, VIT__F_NEON(vorrq_u32(VIT__U_NEON(a), VIT__U_NEON(b))))

#    define VIT__TIER neon
#    define VIT__STAMP                                                                            \
        (VIT__STAMP_ROWS | VIT__STAMP_FLOATS | VIT__STAMP_BYTES | VIT__STAMP_MORE)
#    undef VIT__BELOW
#    define VIT__BELOW 128
#    define VIT__LANES 4
#    define VIT__RF float32x4_t
#    define VIT__RI int32x4_t
#    define VIT__F_FMA1(a, b, c) VIT__FMA(a, b, c)
#    define VIT__F_LOAD(p) vld1q_f32(p)
#    define VIT__F_STORE(p, a) vst1q_f32(p, a)
#    define VIT__F_SPLAT(x) vdupq_n_f32(x)
#    define VIT__F_BITS(x) VIT__F_NEON(vdupq_n_u32(x))
#    define VIT__F(op) vit__neon_##op
#    define VIT__F_FIRST(a) vgetq_lane_f32(a, 0)
#    define VIT__F_FMA(a, b, c) vfmaq_f32(c, a, b)
#    define VIT__F_IADD(a, b) VIT__F_NEON(vaddq_u32(VIT__U_NEON(a), VIT__U_NEON(b)))
#    define VIT__F_SHL(a, n) VIT__F_NEON(vshlq_u32(VIT__U_NEON(a), vdupq_n_s32(n)))
#    define VIT__F_SHR(a, n) VIT__F_NEON(vshlq_u32(VIT__U_NEON(a), vdupq_n_s32(-(n))))
#    define VIT__F_NAN(a) VIT__F_NEON(vmvnq_u32(vceqq_f32(a, a)))
#    define VIT__F_SELECT(mask, a, b) vbslq_f32(VIT__U_NEON(mask), a, b)
#    define VIT__SWAPS(op, x)                                                                     \
        x = op(x, vextq_f32(x, x, 2));                                                            \
        x = op(x, vrev64q_f32(x));
#    define VIT__STORE_BYTES(p, v)                                                                \
        vst1q_u8(p, vcombine_u8(vmovn_u16(VIT__HALVES_NEON(v.r0, v.r1)),                          \
                                vmovn_u16(VIT__HALVES_NEON(v.r2, v.r3))));
#    define VIT__STORE_HALVES(p, v)                                                               \
        vst1q_u16(p, VIT__HALVES_NEON(v.r0, v.r1));                                               \
        vst1q_u16((p) + 8, VIT__HALVES_NEON(v.r2, v.r3));
#    define VIT__I_ZERO() vdupq_n_s32(0)
#    define VIT__I_SPLAT(x) vdupq_n_s32(x)
#    define VIT__I_LOAD(p) vld1q_s32((const int32_t *)(const void *)(p))
#    define VIT__I_STORE(p, a) vst1q_s32((int32_t *)(void *)(p), a)
#    define VIT__I_ADD(a, b) vaddq_s32(a, b)
#    define VIT__I_SUB(a, b) vsubq_s32(a, b)
#    define VIT__I_MUL(a, b) vmulq_s32(a, b)
#    define VIT__I_AND(a, b) vandq_s32(a, b)
#    define VIT__I_SHL(a, n) vshlq_n_s32(a, n)
#    define VIT__I_SHR(a, n) vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), n))
#    define VIT__I_TO_F(a) vcvtq_f32_s32(a)
#    define VIT__LINES(p, stride, n) vit__lines_neon(p + 4 * n, p + stride + 4 * n)
#    undef VIT__LINES_TYPE
#    define VIT__LINES_TYPE int16x8_t
#    define VIT__LINES_ADD(c, pairs, w) vit__lines_add_neon(c, pairs, w)
#    define VIT__W_F16(p) vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)))
/* No load may move up across VIT__FENCE_NEON: gcc 12 would start all loads of a step at once and
   spill sums to make room. */
#    define VIT__X float
#    define VIT__X_LOAD(x, p)                                                                     \
        VIT__COPY(&x, VIT__ALIGNED_4(p), 4);                                                      \
        VIT__FENCE_NEON
#    define VIT__MAC(c, x, w) VIT__FMLA_NEON(c, w, x)
/* Two quads as 16-bit products. Exact: 2 * 128 * 127 <= 32767, and no weight is -128. A register of
   columns has two registers of sums, which vpadd adds. */
#    undef VIT__ACC
#    define VIT__ACC int32x4x2_t
#    undef VIT__ACC_ZERO
#    define VIT__ACC_ZERO { { vdupq_n_s32(0), vdupq_n_s32(0) } }
#    undef VIT__ACC_SUM
#    define VIT__ACC_SUM(c) vpaddq_s32(c.val[0], c.val[1])
#    define VIT__XI int8x8_t
#    define VIT__XI_LOAD(x, p)                                                                    \
        x = vreinterpret_s8_u32(vld1_dup_u32((const uint32_t *)(const void *)(p)));               \
        VIT__FENCE_NEON
#    undef VIT__U
#    define VIT__U int8x16_t
#    undef VIT__U_OF
#    define VIT__U_OF(n) u##n
#    undef VIT__U_LOAD
#    define VIT__U_LOAD                                                                           \
        const int8x16_t u0 = vld1q_s8((const int8_t *)(w + 64));                                  \
        const int8x16_t u1 = vld1q_s8((const int8_t *)(w + 80)), u2 = u1, u3 = u1;
#    define VIT__TWO_QUADS(c, x, y, w, u)                                                         \
        {                                                                                         \
            const int8x16_t b = VIT__B_NEON(w);                                                   \
            int16x8_t two = vmlal_s8(vmull_s8(vget_low_s8(b), x), vget_low_s8(u), y);             \
            c.val[0] = vpadalq_s16(c.val[0], two);                                                \
            two = vmlal_s8(vmull_s8(vget_high_s8(b), x), vget_high_s8(u), y);                     \
            c.val[1] = vpadalq_s16(c.val[1], two);                                                \
        }
#    define VIT__WIDENS_I4 1
#    define VIT__SUB8(a, b) vreinterpretq_s32_s8(vsubq_s8(VIT__B_NEON(a), VIT__B_NEON(b)))
#    include VIT__THIS_FILE

VIT__TILES_2(f32_neon, VIT_F32, float_tile, neon, VIT__TILE_F32, 6, 4)
VIT__TILES_2(f16_neon, VIT_F16, float_tile, neon, VIT__TILE_F16, 6, 4)
VIT__TILES_2(bf16_neon, VIT_BF16, float_tile, neon, VIT__TILE_BF16, 6, 4)
VIT__TILE_FN(vit__tile_i8_half_neon, byte_tile, neon, VIT__TILE_TWO, 4, 2)
VIT__HALF_TILES(vit__tile_i8_neon, vit__tile_i8_half_neon)

/* int4. The eight quads of a group are added in 16 bits: 32 / 4 * 8 * 128 <= 32767. The correction
   for signed inputs follows. */
#    define VIT__TIER neon_i4
#    define VIT__STAMP (VIT__STAMP_BYTES | VIT__STAMP_MORE)
#    undef VIT__ACC
#    undef VIT__ACC_ZERO
#    undef VIT__ACC_SUM
#    undef VIT__XI
#    undef VIT__XI_LOAD
#    undef VIT__U
#    undef VIT__U_OF
#    undef VIT__U_LOAD
#    undef VIT__TWO_QUADS
#    undef VIT__WIDENS_I4
#    undef VIT__GROUP_SUM
#    define VIT__U const unsigned char * /* unused */
#    define VIT__U_OF(n) w
#    define VIT__U_LOAD
#    define VIT__ACC int16x8x2_t
#    define VIT__ACC_ZERO { { vdupq_n_s16(0), vdupq_n_s16(0) } }
#    define VIT__ACC_SUM(c) vpaddq_s32(vpaddlq_s16(c.val[0]), vpaddlq_s16(c.val[1]))
#    define VIT__BASE_NEON(n) VIT__I_LOAD(scale + VIT__GROUPS_WIDE * 64 + VIT__COL(n, 4))
#    define VIT__GROUP_SUM(c, n) vaddq_s32(VIT__ACC_SUM(c), VIT__BASE_NEON(n))
#    define VIT__XI int8x16_t
#    define VIT__XI_LOAD(x, p)                                                                    \
        x = vreinterpretq_s8_u32(vld1q_dup_u32((const uint32_t *)(const void *)(p)));
#    define VIT__DOT8(c, x, w)                                                                    \
        {                                                                                         \
            c.val[0] = vmlal_s8(c.val[0], vget_low_s8(VIT__B_NEON(w)), vget_low_s8(x));           \
            c.val[1] = vmlal_high_s8(c.val[1], VIT__B_NEON(w), x);                                \
        }
#    include VIT__THIS_FILE

VIT__TILE_FN(vit__tile_i4_neon, group_tile, neon_i4, VIT__TILE_DOT8, 3, 4)

static const vit__shape vit__shape_i8_neon = VIT__SHAPE(VIT_I8, 4, vit__tile_i8_neon);
static const vit__shape vit__shape_i4_neon =
    VIT__WIDE_SHAPE(VIT_I4, 3, vit__tile_i4_neon, 1, vit__widen_i4_neon, vit__finish_of_i4_neon);

VIT__KERNELS(neon, VIT_ISA_NEON, 1, neon,
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f32_neon),
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f16_neon),
             (vit__gemm_tiles, 6, VIT__FORM_ROUNDED, &vit__shape_bf16_neon),
             (vit__gemm_tiles, 4, VIT__FORM_S8, &vit__shape_i8_neon),
             (vit__gemm_tiles, 24, VIT__FORM_S8, &vit__shape_i4_neon),
             VIT__IN_F32);

/* --- sdot: dot products of quads -------------------------------------------------- */

#    if VIT__NEON_DOTPROD

VIT__TARGET_BEGIN(VIT__TARGET_NEON("dotprod"))

#        define VIT__TIER neon_dotprod
#        define VIT__STAMP (VIT__STAMP_BYTES | VIT__STAMP_MORE)
#        undef VIT__ACC
#        undef VIT__ACC_ZERO
#        undef VIT__ACC_SUM
#        undef VIT__GROUP_SUM
#        undef VIT__GROUP_START
#        undef VIT__XI
#        undef VIT__XI_LOAD
#        undef VIT__DOT8
#        define VIT__ACC VIT__RI
#        define VIT__ACC_SUM(c) c
#        define VIT__ACC_ZERO VIT__I_ZERO()
#        define VIT__GROUP_START(n) VIT__BASE_NEON(n)
#        define VIT__XI float /* four bytes, for a vector register */
#        define VIT__XI_LOAD(x, p)                                                                \
            VIT__COPY(&x, VIT__ALIGNED_4(p), 4);                                                  \
            VIT__FENCE_NEON
#        define VIT__DOT8(c, x, w) VIT__SDOT_NEON(c, VIT__B_NEON(w), x)
#        include VIT__THIS_FILE

VIT__TILES_2(i8_dotprod, VIT_I8, byte_tile, neon_dotprod, VIT__TILE_DOT8, 6, 4)
VIT__TILE_FN(vit__tile_i4_dotprod, group_tile, neon_dotprod, VIT__TILE_DOT8, 6, 4)

VIT__TARGET_END

static const vit__shape vit__shape_i4_dotprod = VIT__WIDE_SHAPE(
    VIT_I4, 6, vit__tile_i4_dotprod, 1, vit__widen_i4_neon, vit__finish_of_i4_neon);

VIT__KERNELS(neon_dotprod, VIT_ISA_NEON_DOTPROD, 1, neon,
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f32_neon),
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f16_neon),
             (vit__gemm_tiles, 6, VIT__FORM_ROUNDED, &vit__shape_bf16_neon),
             (vit__gemm_tiles, 6, VIT__FORM_S8, &vit__shape_i8_dotprod),
             (vit__gemm_tiles, 24, VIT__FORM_S8, &vit__shape_i4_dotprod),
             VIT__IN_F32);

#    endif /* VIT__NEON_DOTPROD */

/* --- smmla: 2 x 8 times 8 x 2 ----------------------------------------------------- */

#    if VIT__NEON_I8MM

VIT__TARGET_BEGIN(VIT__TARGET_NEON("i8mm"))

/* Here a row of the tile is a pair, rows r and r + `stride`. A register of sums has two columns of
   the first row, then of the second. A register of weights has two columns of two quads:
      for (i = 0; i < 8; i++) c[2 * row + column] += x[8 * row + i] * w[8 * column + i];
   vzip1 of words gives first[0], second[0], first[1], second[1]; vzip2 does the same with words 2
   and 3. */
#        define VIT__ROW_PAIR(p, ld) vcombine_f32(vld1_f32(p), vld1_f32((p) + stride * (ld)))
#        define VIT__BOTH(p) vcombine_f32(vld1_f32(p), vld1_f32(p))
#        define VIT__COLUMNS(zip, n)                                                              \
            vreinterpretq_s32_u32(zip(vreinterpretq_u32_s32(VIT__I_LOAD(w + 16 * (n))),           \
                                      vreinterpretq_u32_s32(VIT__I_LOAD(w + 64 + 16 * (n)))))

VIT__INLINE float32x2_t vit__dequantise_pair(int32x2_t sum, const unsigned char *a,
                                             const unsigned char *tail) {
    const uint8x8_t header = vld1_u8(a);
    const float32x2_t scale = vdup_lane_f32(vreinterpret_f32_u8(header), 0);
    const uint32x2_t zero = vdup_lane_u32(vreinterpret_u32_u8(header), 1);
    const uint32x2_t product = vmls_u32(vreinterpret_u32_s32(sum), zero,
                                        vreinterpret_u32_u8(vld1_u8(tail + 64)));
    return vmul_f32(vcvt_f32_s32(vreinterpret_s32_u32(product)),
                    vmul_f32(scale, vreinterpret_f32_u8(vld1_u8(tail))));
}

#        define VIT__TIER neon_i8mm
#        define VIT__STAMP (VIT__STAMP_BYTES | VIT__STAMP_MORE)
#        undef VIT__LANES
#        undef VIT__GROUP_START
#        undef VIT__XI
#        undef VIT__XI_LOAD
#        undef VIT__DOT8
#        undef VIT__W_REG
#        undef VIT__CHAIN_LOAD
#        undef VIT__CHAIN_STORE
#        undef VIT__SCALE_LOAD
#        undef VIT__BYTE_RESULT
#        define VIT__LANES 2
#        define VIT__W_REG(n)                                                                     \
            ((n) % 2 ? VIT__COLUMNS(vzip2q_u32, (n) / 2) : VIT__COLUMNS(vzip1q_u32, (n) / 2))
#        define VIT__CHAIN_LOAD(p) VIT__ROW_PAIR(p, ldt)
#        define VIT__CHAIN_STORE(p, a)                                                            \
            vst1_f32(p, vget_low_f32(a));                                                         \
            vst1_f32((p) + stride * ldt, vget_high_f32(a))
#        define VIT__SCALE_LOAD(p) VIT__BOTH(p)
#        define VIT__GROUP_START(n)                                                               \
            vreinterpretq_s32_s64(vld1q_dup_s64(                                                  \
                (const int64_t *)(const void *)(scale + VIT__GROUPS_WIDE * 64 + 8 * n)))
#        define VIT__XI uint8x16_t
#        define VIT__XI_LOAD(x, p) x = vcombine_u8(vld1_u8(p), vld1_u8((p) + stride * lda));
#        define VIT__TWO_QUADS(c, x, y, w, u) VIT__SMMLA_NEON(c, x, VIT__B_NEON(w))
#        define VIT__BYTE_RESULT(sum, a, tail)                                                    \
            vcombine_f32(vit__dequantise_pair(vget_low_s32(sum), a, tail),                        \
                         vit__dequantise_pair(vget_high_s32(sum), (a) + stride * lda, tail))
#        include VIT__THIS_FILE

VIT__TILE_FN(vit__tile_i8_2_i8mm, byte_tile, neon_i8mm, VIT__TILE_TWO, 1, 4)
VIT__TILE_FN(vit__tile_i8_4_i8mm, byte_tile, neon_i8mm, VIT__TILE_TWO, 2, 4)
VIT__TILE_FN(vit__tile_i8_6_i8mm, byte_tile, neon_i8mm, VIT__TILE_TWO, 3, 4)
VIT__TILE_FN(vit__tile_i8_8_i8mm, byte_tile, neon_i8mm, VIT__TILE_TWO, 4, 4)
VIT__TILE_FN(vit__tile_i4_2_i8mm, group_tile, neon_i8mm, VIT__TILE_TWO, 1, 4)
VIT__TILE_FN(vit__tile_i4_4_i8mm, group_tile, neon_i8mm, VIT__TILE_TWO, 2, 4)
VIT__TILE_FN(vit__tile_i4_6_i8mm, group_tile, neon_i8mm, VIT__TILE_TWO, 3, 4)
VIT__TILE_FN(vit__tile_i4_8_i8mm, group_tile, neon_i8mm, VIT__TILE_TWO, 4, 4)

VIT__TARGET_END

/* Takes rows in pairs, half a panel at a time. If the rows are odd in number, the middle one is in
   two pairs. */
static void vit__pairs_i8mm(vit__tile_fn *const *run, float *tile, const vit__operands *o,
                            const unsigned char *p) {
    const size_t apart = (size_t)(o->rows / 2);
    vit__operands pairs = *o;
    pairs.rows = (o->rows + 1) / 2;
    run += pairs.rows - 1;
    (*run)(tile, &pairs, p, apart);
    (*run)(tile + 8, &pairs, p + 32, apart);
}
static void vit__gemm_i8_i8mm(float *tile, const vit__operands *o) {
    static vit__tile_fn *const run[4] = { vit__tile_i8_2_i8mm, vit__tile_i8_4_i8mm,
                                          vit__tile_i8_6_i8mm, vit__tile_i8_8_i8mm };
    vit__pairs_i8mm(run, tile, o, o->panel);
}
static void vit__tile_i4_i8mm(float *tile, const vit__operands *o, const unsigned char *p,
                              size_t stride) {
    static vit__tile_fn *const run[4] = { vit__tile_i4_2_i8mm, vit__tile_i4_4_i8mm,
                                          vit__tile_i4_6_i8mm, vit__tile_i4_8_i8mm };
    (void)stride;
    vit__pairs_i8mm(run, tile, o, p);
}
static const vit__shape vit__shape_i4_i8mm =
    VIT__WIDE_SHAPE(VIT_I4, 8, vit__tile_i4_i8mm, 1, vit__widen_i4_neon, vit__finish_of_i4_neon);

VIT__KERNELS(neon_i8mm, VIT_ISA_NEON_I8MM, 1, neon,
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f32_neon),
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f16_neon),
             (vit__gemm_tiles, 6, VIT__FORM_ROUNDED, &vit__shape_bf16_neon),
             (vit__gemm_i8_i8mm, 8, VIT__FORM_S8, VIT__NO_SHAPE),
             (vit__gemm_tiles, 24, VIT__FORM_S8, &vit__shape_i4_i8mm),
             VIT__IN_F32);

/* --- bfmlal: fused multiply-add of bf16 ------------------------------------------- */

VIT__TARGET_BEGIN(VIT__TARGET_NEON("bf16"))

typedef struct vit__four_bytes { unsigned char byte[4]; } vit__four_bytes;

/* Takes the second of a pair first: bfmlalt, c[l] = fma(w[2 * l + 1], x[1], c[l]); then bfmlalb,
   c[l] = fma(w[2 * l], x[0], c[l]). Assembly can address 16-bit elements only in registers 0 to 15,
   constraint x, which clang allows only for full vectors. Hence the explicit load. */
#        define VIT__TIER neon_bf16
#        define VIT__STAMP VIT__STAMP_FLOATS
#        undef VIT__LANES
#        undef VIT__W_F16
#        undef VIT__X
#        undef VIT__X_LOAD
#        undef VIT__MAC
#        define VIT__LANES 4
#        if VIT__GNU
#            define VIT__X int8x16_t
#            define VIT__X_LOAD(x, p)                                                             \
                __asm__("ldr %s0, %1" : "=x"(x) : "Q"(*(const vit__four_bytes *)(p)));
#            define VIT__MAC(c, x, w)                                                             \
                __asm__("bfmlalt %0.4s, %1.8h, %2.h[1]\n\tbfmlalb %0.4s, %1.8h, %2.h[0]"          \
                        : "+w"(c) : "w"(w), "x"(x));
#        else
#            define VIT__X bfloat16x4_t
#            define VIT__X_LOAD(x, p) x = vreinterpret_bf16_s32(vdup_n_s32(vit__load32(p)));
#            define VIT__MAC(c, x, w)                                                             \
                {                                                                                 \
                    c = vbfmlaltq_lane_f32(c, vreinterpretq_bf16_f32(w), x, 1);                   \
                    c = vbfmlalbq_lane_f32(c, vreinterpretq_bf16_f32(w), x, 0);                   \
                }
#        endif
#        include VIT__THIS_FILE

VIT__TILES_2(dot_neon, VIT_BF16, float_tile, neon_bf16, VIT__TILE_DOT, 6, 4)

VIT__TARGET_END

VIT__KERNELS(neon_bf16, VIT_ISA_NEON_BF16, 1, neon,
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f32_neon),
             (vit__gemm_tiles, 6, VIT__FORM_F32, &vit__shape_f16_neon),
             (vit__gemm_tiles, 6, VIT__FORM_BF16, &vit__shape_dot_neon),
             (vit__gemm_i8_i8mm, 8, VIT__FORM_S8, VIT__NO_SHAPE),
             (vit__gemm_tiles, 24, VIT__FORM_S8, &vit__shape_i4_i8mm),
             VIT__IN_F32);

#    endif /* VIT__NEON_I8MM */

#    define VIT__TIER none
#    define VIT__STAMP 0
#    include VIT__THIS_FILE
#endif /* VIT__NEON */

/* --- Arm's microcontrollers: SMLAD ------------------------------------------------ */

/* SMLAD, of Cortex-M4 and every 32-bit ARM since version 6, multiplies two pairs of 16-bit integers
   and adds both products to a sum. It serves int8 and int4; plain C does the rest. */
#if VIT__SMLAD

/* Splits a word into bytes 0 and 2, then bytes 1 and 3, each as two 16-bit integers (uxtb16; sxtb16
   extends the sign):

      to = word & 0xff | (word >> 16 & 0xff) << 16
      from = word >> 8 & 0xff | (word >> 24) << 16

   In assembly, because compilers spend a separate instruction on the rotation. */
#    define VIT__HALVES_SMLAD(to, from, instruction, word)                                        \
        __asm__(instruction " %0, %1" : "=r"(to) : "r"(word));                                    \
        __asm__(instruction " %0, %1, ror #8" : "=r"(from) : "r"(word));
/* smlad: c += even.low * q_even.low + even.high * q_even.high, as int16_t. */
#    define VIT__COLUMN_SMLAD(c, n)                                                               \
        word = vit__load32(w + 4 * n);                                                            \
        VIT__HALVES_SMLAD(even, odd, "sxtb16", word)                                              \
        __asm__("smlad %0, %1, %2, %0" : "+r"(c) : "r"(even), "r"(q_even));                       \
        __asm__("smlad %0, %1, %2, %0" : "+r"(c) : "r"(odd), "r"(q_odd));

static void vit__dot_i8_smlad(int32_t *sum, const unsigned char *q, const unsigned char *w,
                              int depth) {
    const unsigned char *const end = q + depth;
    int32_t c0 = 0, c1 = 0, c2 = 0, c3 = 0;
    for (; q < end; q += 4, w += 64) {
        int word = vit__load32(q), q_even, q_odd, even, odd;
        VIT__HALVES_SMLAD(q_even, q_odd, "uxtb16", word)
        VIT__COLUMN_SMLAD(c0, 0)
        VIT__COLUMN_SMLAD(c1, 1)
        VIT__COLUMN_SMLAD(c2, 2)
        VIT__COLUMN_SMLAD(c3, 3)
    }
    sum[0] = c0, sum[1] = c1, sum[2] = c2, sum[3] = c3;
}

static void vit__gemm_i8_smlad(float *tile, const vit__operands *o) {
    if (VIT__HAS_INT8) vit__gemm_i8_body(vit__dot_i8_smlad, tile, o);
}
static void vit__gemm_i4_smlad(float *tile, const vit__operands *o) {
    if (VIT__HAS_INT4) vit__gemm_i4_body(vit__dot_i8_smlad, tile, o);
}

VIT__KERNELS(smlad, VIT_ISA_SMLAD, 1, scalar,
             (vit__gemm_f32_scalar, 4, VIT__FORM_F32, VIT__NO_SHAPE),
             (vit__gemm_f16_scalar, 4, VIT__FORM_F32, VIT__NO_SHAPE),
             (vit__gemm_bf16_scalar, 4, VIT__FORM_ROUNDED, VIT__NO_SHAPE),
             (vit__gemm_i8_smlad, 4, VIT__FORM_U8, VIT__NO_SHAPE),
             (vit__gemm_i4_smlad, 4, VIT__FORM_U8, VIT__NO_SHAPE),
             (vit__gemm_i16_scalar, 4, VIT__FORM_I16, VIT__NO_SHAPE));

#endif /* VIT__SMLAD */

/* --- Arm's microcontrollers: Helium ----------------------------------------------- */

/* Helium, of Cortex-M55, has 8 registers of 128 bits: tiles of 2 rows x 8 columns. Values below
   2^-126 count as zero. The instruction that adds products of bytes in 32 bits adds all 16 lanes to
   one sum. So int8 and int4, in FORM_S8, have hand-written tiles of 2 x 2: a vector holds 16
   weights of one column, which are four quads that a load gathers. Plain C's row functions serve
   Helium too. */
#if VIT__HELIUM

/* vldrh.u32 widens four halves to 32 bits each; vcvtb converts the lower half of each lane. In
   assembly, because binutils 2.40 encodes vcvtb incorrectly for registers other than 0. */
VIT__INLINE float32x4_t vit__f16_helium(const unsigned char *p) {
    const uint32x4_t half = vldrhq_u32((const uint16_t *)(const void *)p);
    float32x4_t w;
    __asm__("vmov q0, %q1\n\tvcvtb.f32.f16 q0, q0\n\tvmov %q0, q0" : "=w"(w) : "w"(half) : "q0");
    return w;
}

typedef struct vit__pair_helium { float x, y; } vit__pair_helium;

VIT__INLINE vit__pair_helium vit__pair_of_helium(const unsigned char *p) {
    const uint32_t pair = (uint32_t)vit__load32(p);
    vit__pair_helium both;
    both.x = vit__float(pair << 16);
    both.y = vit__float(pair & 0xffff0000u);
    return both;
}

/* Takes two rows and half a panel at a time; the half is `bytes` wide. */
VIT__INLINE void vit__halves_helium(vit__tile_fn *run, float *tile, const vit__operands *o,
                                    size_t bytes) {
    vit__operands two = *o;
    for (; two.rows > 0; two.rows -= 2, two.a += 2 * o->lda, tile += 2 * o->ldt) {
        run(tile, &two, o->panel, 0);
        run(tile + 8, &two, o->panel + bytes, 0);
    }
}

#    define VIT__U_HELIUM(a) vreinterpretq_u32_f32(a)
#    define VIT__F_HELIUM(a) vreinterpretq_f32_u32(a)

VIT__INLINE float32x4_t vit__helium_and(float32x4_t a, float32x4_t b) {
    return VIT__F_HELIUM(vandq_u32(VIT__U_HELIUM(a), VIT__U_HELIUM(b)));
}
VIT__INLINE float32x4_t vit__helium_mul(float32x4_t a, float32x4_t b) { return vmulq_f32(a, b); }

#    define VIT__TIER helium
#    define VIT__STAMP (VIT__STAMP_FLOATS | VIT__STAMP_MORE)
#    define VIT__LANES 4
#    define VIT__RF float32x4_t
#    define VIT__F_LOAD(p) vld1q_f32(p)
#    define VIT__F_STORE(p, a) vst1q_f32(p, a)
#    define VIT__F_SPLAT(x) vdupq_n_f32(x)
#    define VIT__F_BITS(x) VIT__F_HELIUM(vdupq_n_u32(x))
#    define VIT__F(op) vit__helium_##op
#    define VIT__F_SHL(a, n) VIT__F_HELIUM(vshlq_n_u32(VIT__U_HELIUM(a), n))
#    define VIT__W_F16(p) vit__f16_helium(p)
#    define VIT__X float
#    define VIT__X_LOAD(x, p) x = vit__load_float(p);
#    define VIT__MAC(c, x, w) c = vfmaq_n_f32(c, w, x);
#    include VIT__THIS_FILE

VIT__TILE_FN(vit__tile_f32_helium, float_tile, helium, VIT__TILE_F32, 2, 2)
VIT__TILE_FN(vit__tile_f16_helium, float_tile, helium, VIT__TILE_F16, 2, 2)

/* Takes the second of a pair of bf16 first: c[l] = fma(v[l], x, fma(w[l], y, c[l])). v is the lower
   halves of the pairs as f32, w the upper ones. */
#    define VIT__TIER helium_bf16
#    define VIT__STAMP (VIT__STAMP_FLOATS | VIT__STAMP_MORE)
#    undef VIT__X
#    undef VIT__X_LOAD
#    undef VIT__MAC
#    undef VIT__W_F16
#    define VIT__X vit__pair_helium
#    define VIT__X_LOAD(a, p) a = vit__pair_of_helium(p);
#    define VIT__MAC(c, a, w)                                                                     \
        c = vfmaq_n_f32(vfmaq_n_f32(c, VIT__F(and)(w, VIT__F_BITS(0xffff0000u)), a.y),            \
                        VIT__F_SHL(w, 16), a.x);
#    include VIT__THIS_FILE

VIT__TILE_FN(vit__tile_bf16_helium, float_tile, helium_bf16, VIT__TILE_DOT, 2, 2)

/* 16-bit integers: c[l] += v[l] * x + w[l] * y. v is the lower halves of the pairs, w the upper
   ones. */
#    if VIT__HAS_I16
#        define VIT__TIER helium_i16
#        define VIT__STAMP (VIT__STAMP_BYTES | VIT__STAMP_MORE)
#        define VIT__RI int32x4_t
#        define VIT__F_FMA(a, b, c) vfmaq_f32(c, a, b)
#        define VIT__I_ZERO() vdupq_n_s32(0)
#        define VIT__I_SPLAT(x) vdupq_n_s32(x)
#        define VIT__I_LOAD(p) vld1q_s32((const int32_t *)(const void *)(p))
#        define VIT__I_STORE(p, a) vst1q_s32((int32_t *)(void *)(p), a)
#        define VIT__I_SUB(a, b) vsubq_s32(a, b)
#        define VIT__I_MUL(a, b) vmulq_s32(a, b)
#        define VIT__I_TO_F(a) vcvtq_f32_s32(a)
#        define VIT__XI int32_t
#        define VIT__XI_LOAD(x, p) x = vit__load32(p);
#        define VIT__DOT16(c, x, w)                                                               \
            c = vmlaq_n_s32(vmlaq_n_s32(c, vshrq_n_s32(w, 16), x >> 16),                          \
                            vshrq_n_s32(vshlq_n_s32(w, 16), 16), (int16_t)(x & 0xffff));
#        include VIT__THIS_FILE

VIT__TILE_FN(vit__tile_i16_helium, byte_tile, helium_i16, VIT__TILE_DOT16, 2, 2)

static void vit__gemm_i16_helium(float *tile, const vit__operands *o) {
    vit__halves_helium(vit__tile_i16_helium, tile, o, 32);
}
#    endif

#    define VIT__TIER none
#    define VIT__STAMP 0
#    include VIT__THIS_FILE

static void vit__gemm_f32_helium(float *tile, const vit__operands *o) {
    if (VIT__HAS_F32) vit__halves_helium(vit__tile_f32_helium, tile, o, 32);
}
static void vit__gemm_f16_helium(float *tile, const vit__operands *o) {
    if (VIT__HAS_F16) vit__halves_helium(vit__tile_f16_helium, tile, o, 16);
}
static void vit__gemm_bf16_helium(float *tile, const vit__operands *o) {
    if (VIT__HAS_BF16) vit__halves_helium(vit__tile_bf16_helium, tile, o, 32);
}

/* Two rows a and b times two columns of a panel, whose quads are 64 bytes apart:

      for (; bytes > 0; bytes -= 16) {                           dlstp, letp
          for (l = 0; l < 4; l++) {
              at[l] += 256;                                      vldrw, to itself
              q0[l] = *(int32_t *)at[l];                         a quad of the first column,
              q1[l] = *(int32_t *)(at[l] + 4);                   one of the second
          }
          for (i = 0; i < bytes && i < 16; i++)                  vmladava, on bytes
              a0 += q0[i] * a[i], a1 += q1[i] * a[i], b0 += q0[i] * b[i], b1 += q1[i] * b[i];
          a += 16, b += 16;
      }

   In assembly, because compilers do not generate this loop, whose last pass masks the lanes past
   the end. vmladava sums only into even registers, constraint Te. */
VIT__INLINE void vit__dot_i8_helium(int32_t *sum, const unsigned char *a, const unsigned char *b,
                                    const unsigned char *w, int bytes) {
    const uint32_t first = (uint32_t)(uintptr_t)w - 256;
    const uint32x4_t quads = vshlq_n_u32(vidupq_n_u32(0, 1), 6);
    uint32x4_t at = vaddq_n_u32(quads, first);
    int32_t a0 = 0, a1 = 0, b0 = 0, b1 = 0;
    __asm__ __volatile__("dlstp.8 lr, %[bytes]\n"
                         "1:\n\t"
                         "vldrw.u32 q0, [%q[at], #256]!\n\t"
                         "vldrw.u32 q1, [%q[at], #4]\n\t"
                         "vldrb.u8 q2, [%[a]], #16\n\t"
                         "vldrb.u8 q3, [%[b]], #16\n\t"
                         "vmladava.s8 %[a0], q0, q2\n\t"
                         "vmladava.s8 %[a1], q1, q2\n\t"
                         "vmladava.s8 %[b0], q0, q3\n\t"
                         "vmladava.s8 %[b1], q1, q3\n\t"
                         "letp lr, 1b"
                         : [a] "+r"(a), [b] "+r"(b), [at] "+w"(at), [a0] "+Te"(a0),
                           [a1] "+Te"(a1), [b0] "+Te"(b0), [b1] "+Te"(b1)
                         : [bytes] "r"(bytes)
                         : "q0", "q1", "q2", "q3", "lr", "memory");
    sum[0] = a0, sum[1] = a1, sum[16] = b0, sum[17] = b1;
}

/* vit__dequantise_row for Helium: (float)(sum[l] - zero * sums[l]) * (scale * scales[l]). */
static void vit__dequantise_helium(float *tile, const int32_t *sum, const unsigned char *a,
                                   const unsigned char *tail) {
    const float *scales = (const float *)(const void *)tail;
    const int32_t *sums = (const int32_t *)(const void *)(tail + 64);
    const float scale = vit__load_float(a);
    const int32_t zero = vit__load32(a + 4);
    int l;
    for (l = 0; l < 16; l += 4) {
        const int32x4_t offset = vmulq_n_s32(vld1q_s32(sums + l), zero);
        const int32x4_t product = vsubq_s32(vld1q_s32(sum + l), offset);
        const float32x4_t factor = vmulq_n_f32(vld1q_f32(scales + l), scale);
        vst1q_f32(tile + l, vmulq_f32(vcvtq_f32_s32(product), factor));
    }
}

static void vit__gemm_i8_helium(float *tile, const vit__operands *o) {
    const int bytes = 4 * vit__quads(o->depth);
    const unsigned char *tail = o->panel + 16 * (size_t)bytes, *a = o->a, *b;
    int32_t sum[32];
    int rows = o->rows, l;
    for (; VIT__HAS_INT8 && rows > 0; rows -= 2, a += 2 * o->lda, tile += 2 * o->ldt) {
        const size_t next = rows > 1;
        b = a + next * o->lda;
        for (l = 0; l < 16; l += 2)
            vit__dot_i8_helium(sum + l, a + VIT__U8_HEADER, b + VIT__U8_HEADER, o->panel + 4 * l,
                               bytes);
        vit__dequantise_helium(tile, sum, a, tail);
        vit__dequantise_helium(tile + next * o->ldt, sum + 16, b, tail);
    }
}

/* Scales a row's sums of a group and adds them to its chains. */
static void vit__add_group_helium(float *tile, const int32_t *sum, const int32_t *base,
                                  const float *scale) {
    int l;
    for (l = 0; l < 16; l += 4) {
        const float32x4_t x = vcvtq_f32_s32(vaddq_s32(vld1q_s32(sum + l), vld1q_s32(base + l)));
        vst1q_f32(tile + l, vfmaq_f32(vld1q_f32(tile + l), x, vld1q_f32(scale + l)));
    }
}

static void vit__gemm_i4_helium(float *tile, const vit__operands *o) {
    const unsigned char *group = o->panel, *a;
    uint32_t wide[4 * 32];
    unsigned char *const quads = (unsigned char *)wide;
    float scale[16];
    int32_t sum[32], base[16];
    int k, r, l;
    for (r = 0; r < o->rows; r++) memset(tile + (size_t)r * o->ldt, 0, sizeof scale);
    for (k = 0; VIT__HAS_INT4 && k < o->depth; k += 32, group += VIT__I4_GROUP) {
        vit__widen_i4(quads, scale, group);
        vit__base_i4(base, quads);
        for (r = 0, a = o->a + VIT__U8_HEADER + k; r < o->rows; r += 2, a += 2 * o->lda) {
            const size_t next = r + 1 < o->rows;
            float *const to = tile + (size_t)r * o->ldt;
            for (l = 0; l < 16; l += 2)
                vit__dot_i8_helium(sum + l, a, a + next * o->lda, quads + 4 * l, 32);
            vit__add_group_helium(to, sum, base, scale);
            if (next) vit__add_group_helium(to + o->ldt, sum + 16, base, scale);
        }
    }
    vit__finish_i4_scalar(tile, o, group, 128);
}

VIT__KERNELS(helium, VIT_ISA_HELIUM, 1, scalar,
             (vit__gemm_f32_helium, 4, VIT__FORM_F32, VIT__NO_SHAPE),
             (vit__gemm_f16_helium, 4, VIT__FORM_F32, VIT__NO_SHAPE),
             (vit__gemm_bf16_helium, 4, VIT__FORM_BF16, VIT__NO_SHAPE),
             (vit__gemm_i8_helium, 4, VIT__FORM_S8, VIT__NO_SHAPE),
             (vit__gemm_i4_helium, 4, VIT__FORM_S8, VIT__NO_SHAPE),
             (vit__gemm_i16_helium, 4, VIT__FORM_I16, VIT__NO_SHAPE));

#endif /* VIT__HELIUM */

/* --- WebAssembly's SIMD128 -------------------------------------------------------- */

/* Tiles of 2 rows x 16 columns, which take 8 of x86's 16 registers. Engines start by loading all
   operands of a step. More rows, or more k a step, would spill; fewer rows would compute more
   addresses. Products are rounded before they are added, as in plain C built with VIT_NO_FMA. */
#if VIT__WASM_SIMD

/* The method is that of vit__f16_sse2. */
VIT__INLINE v128_t vit__f16_wasm(const unsigned char *p) {
    const v128_t half = wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13); /* sign-extended */
    const v128_t sign = wasm_v128_and(half, wasm_i32x4_const_splat((int)0x80000000u));
    const v128_t size = wasm_v128_and(half, wasm_i32x4_const_splat(0x0fffffff));
    const v128_t x = wasm_f32x4_mul(size, wasm_f32x4_const_splat(5.1922968585348276e33f));
    const v128_t special = wasm_f32x4_ge(x, wasm_f32x4_const_splat(65536.0f));
    const v128_t exponent = wasm_v128_and(special, wasm_i32x4_const_splat(0x7f800000));
    return wasm_v128_or(wasm_v128_or(x, exponent), sign);
}
VIT__INLINE v128_t vit__lines_wasm(const uint8_t *p, const uint8_t *q) {
    const v128_t first = wasm_v128_load32_zero(p), second = wasm_v128_load32_zero(q);
    return wasm_u16x8_extend_low_u8x16(wasm_i8x16_shuffle(first, second, 0, 16, 1, 17, 2, 18, 3, 19,
                                                          0, 0, 0, 0, 0, 0, 0, 0));
}
VIT__INLINE v128_t vit__halves_wasm(v128_t a, v128_t b) {
    const v128_t mask = wasm_i32x4_const_splat(0xffff);
    return wasm_u16x8_narrow_i32x4(wasm_v128_and(a, mask), wasm_v128_and(b, mask));
}
VIT__INLINE v128_t vit__bytes_wasm(v128_t a, v128_t b, v128_t c, v128_t d) {
    const v128_t mask = wasm_i32x4_const_splat(255);
    return wasm_u8x16_narrow_i16x8(
        wasm_i16x8_narrow_i32x4(wasm_v128_and(a, mask), wasm_v128_and(b, mask)),
        wasm_i16x8_narrow_i32x4(wasm_v128_and(c, mask), wasm_v128_and(d, mask)));
}

#    define VIT__WORD_WASM(name, value)                                                           \
        VIT__INLINE v128_t vit__wasm_##name(v128_t a, v128_t b) { return value; }
VIT__WORD_WASM(add, wasm_f32x4_add(a, b))
VIT__WORD_WASM(sub, wasm_f32x4_sub(a, b))
VIT__WORD_WASM(mul, wasm_f32x4_mul(a, b))
VIT__WORD_WASM(div, wasm_f32x4_div(a, b))
VIT__WORD_WASM(min, wasm_f32x4_pmin(b, a))
VIT__WORD_WASM(max, wasm_f32x4_pmax(b, a))
VIT__WORD_WASM(and, wasm_v128_and(a, b))
VIT__WORD_WASM(or, wasm_v128_or(a, b))

#    define VIT__TIER wasm
#    define VIT__STAMP (VIT__STAMP_ROWS | VIT__STAMP_FLOATS | VIT__STAMP_BYTES)
#    define VIT__LANES 4
#    define VIT__RF v128_t
#    define VIT__RI v128_t
#    define VIT__F_FMA1(a, b, c) vit__multiply_add(a, b, c)
#    define VIT__F_LOAD(p) wasm_v128_load(p)
#    define VIT__F_STORE(p, a) wasm_v128_store(p, a)
#    define VIT__F_SPLAT(x) wasm_f32x4_splat(x)
#    define VIT__F_BITS(x) wasm_i32x4_splat((int)(x))
#    define VIT__F(op) vit__wasm_##op
#    define VIT__F_FIRST(a) wasm_f32x4_extract_lane(a, 0)
#    define VIT__F_FMA(a, b, c) wasm_f32x4_add(wasm_f32x4_mul(a, b), c)
#    define VIT__F_IADD(a, b) wasm_i32x4_add(a, b)
#    define VIT__F_SHL(a, n) wasm_i32x4_shl(a, (uint32_t)(n))
#    define VIT__F_SHR(a, n) wasm_u32x4_shr(a, (uint32_t)(n))
#    define VIT__F_NAN(a) wasm_f32x4_ne(a, a)
#    define VIT__F_SELECT(mask, a, b) wasm_v128_bitselect(a, b, mask)
#    define VIT__SWAPS(op, x)                                                                     \
        x = op(x, wasm_i32x4_shuffle(x, x, 2, 3, 0, 1));                                          \
        x = op(x, wasm_i32x4_shuffle(x, x, 1, 0, 3, 2));
#    define VIT__STORE_BYTES(p, v) wasm_v128_store(p, vit__bytes_wasm(v.r0, v.r1, v.r2, v.r3));
#    define VIT__STORE_HALVES(p, v)                                                               \
        wasm_v128_store(p, vit__halves_wasm(v.r0, v.r1));                                         \
        wasm_v128_store((p) + 8, vit__halves_wasm(v.r2, v.r3));
#    define VIT__I_ZERO() wasm_i32x4_const_splat(0)
#    define VIT__I_SPLAT(x) wasm_i32x4_splat(x)
#    define VIT__I_LOAD(p) wasm_v128_load(p)
#    define VIT__I_STORE(p, a) wasm_v128_store(p, a)
#    define VIT__I_ADD(a, b) wasm_i32x4_add(a, b)
#    define VIT__I_SUB(a, b) wasm_i32x4_sub(a, b)
#    define VIT__I_MUL(a, b) wasm_i32x4_mul(a, b)
#    define VIT__I_AND(a, b) wasm_v128_and(a, b)
#    define VIT__I_SHL(a, n) wasm_i32x4_shl(a, n)
#    define VIT__I_SHR(a, n) wasm_u32x4_shr(a, n)
#    define VIT__I_TO_F(a) wasm_f32x4_convert_i32x4(a)
#    define VIT__LINES(p, stride, n) vit__lines_wasm(p + 4 * n, p + stride + 4 * n)
#    define VIT__LINES_ADD(c, pairs, w)                                                           \
        wasm_i32x4_add(c, wasm_i32x4_dot_i16x8(pairs, wasm_i32x4_splat(w)))
#    define VIT__WIDENS 1
#    define VIT__W_F16(p) vit__f16_wasm(p)
#    define VIT__X v128_t
#    define VIT__X_LOAD(x, p) x = wasm_v128_load32_splat(p);
/* A product of two bf16 has 16 bits, all of which f32 holds (fewer below 2^-126). Fused or not,
   only the sum is rounded. */
#    if defined(__wasm_relaxed_simd__)
#        define VIT__MAC(c, x, w)                                                                 \
            c = kind == VIT__TILE_ODD ? wasm_f32x4_relaxed_madd(x, w, c) : VIT__F_FMA(x, w, c);
#    else
#        define VIT__MAC(c, x, w) c = VIT__F_FMA(x, w, c);
#    endif
#    undef VIT__SUM_START
#    define VIT__SUM_START(r, n) VIT__SUM_FROM_TILE(r, n)
#    define VIT__XI v128_t
#    define VIT__XI_LOAD(x, p) x = wasm_v128_load32_splat(p);
#    define VIT__EVEN(x) wasm_v128_and(x, wasm_i16x8_const_splat(255))
#    define VIT__ODD(x) wasm_u16x8_shr(x, 8)
#    define VIT__DOT16(c, x, w) c = wasm_i32x4_add(c, wasm_i32x4_dot_i16x8(x, w));
#    define VIT__WIDE_BYTES 1
#    define VIT__WIDENS_I4 1
#    define VIT__SUB8(a, b) wasm_i8x16_sub(a, b)
#    define VIT__SHL16(a) wasm_i16x8_shl(a, 8)
#    define VIT__SRA16(a) wasm_i16x8_shr(a, 8)
#    if defined(__wasm_relaxed_simd__)
#        define VIT__DOT8(c, x, w) c = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(w, x, c);
#        define VIT__TWO_QUADS(c, x, y, w, u)                                                     \
            {                                                                                     \
                const v128_t first = wasm_i16x8_relaxed_dot_i8x16_i7x16(w, x);                    \
                const v128_t second = wasm_i16x8_relaxed_dot_i8x16_i7x16(VIT__I_LOAD(u), y);      \
                VIT__DOT16(c, wasm_i16x8_add(first, second), wasm_i16x8_const_splat(1))           \
            }
/* Hides the index from the compiler, which would spend an instruction on each pointer. From an
   index, an engine forms addresses with constant offsets. */
#        undef VIT__INDEX
#        define VIT__INDEX(k) if (kind == VIT__TILE_TWO) VIT__HIDE(k)
#    endif
#    define VIT__WIDE_I4 1
#    include VIT__THIS_FILE

VIT__TILE_FN(vit__tile_more_wasm, float_tile, wasm, VIT__TILE_MORE, 2, 4)
VIT__TILE_FN(vit__tile_odd_wasm, float_tile, wasm, VIT__TILE_ODD, 2, 4)
VIT__TILE_FN(vit__tile_i16_wasm, byte_tile, wasm, VIT__TILE_DOT16, 2, 4)
VIT__TILE_FN(vit__tile_wide_wasm, byte_tile, wasm, VIT__TILE_WIDE, 2, 4)
VIT__TILE_FN(vit__tile_i4_wasm, group_tile, wasm, VIT__TILE_WIDE, 2, 4)

static const vit__shape vit__shape_f32_wasm =
    VIT__MORE_SHAPE(VIT_F32, 2, vit__tile_more_wasm);
static const vit__shape vit__shape_i16_wasm =
    VIT__SHAPE(VIT__I16, 2, vit__tile_i16_wasm);
static const vit__shape vit__shape_f16_wasm =
    VIT__WIDE_SHAPE(VIT_F16, 2, vit__tile_more_wasm, 4, vit__widen_f16_wasm, NULL);
static const vit__shape vit__shape_bf16_wasm =
    VIT__WIDE_SHAPE(VIT_BF16, 2, vit__tile_odd_wasm, 4, vit__widen_bf16_wasm, NULL);
static const vit__shape vit__shape_i8_wasm = VIT__WIDE_SHAPE(
    VIT_I8, 2, vit__tile_wide_wasm, 1, vit__widen_i8_wasm, vit__finish_i8_wasm);
static const vit__shape vit__shape_i4_wasm = VIT__WIDE_SHAPE(
    VIT_I4, 2, vit__tile_i4_wasm, 1, vit__widen_i4_wasm, vit__finish_of_i4_wasm);

#    if defined(__wasm_relaxed_simd__)
VIT__TILE_FN(vit__tile_dot8_wasm, byte_tile, wasm, VIT__TILE_DOT8, 2, 4)
VIT__TILE_FN(vit__tile_two_half_wasm, byte_tile, wasm, VIT__TILE_TWO, 2, 2)
VIT__HALF_TILES(vit__tile_two_wasm, vit__tile_two_half_wasm)

/* 1 if the engine treats inputs as unsigned bytes; it may read bit 7 as a sign. */
VIT__INLINE int vit__can_add16_wasm(const vit__operands *o) {
    const v128_t dot = wasm_i16x8_relaxed_dot_i8x16_i7x16(wasm_i16x8_const_splat(63 * 256 + 64),
                                                          wasm_i16x8_const_splat(-1));
    return o->fits16 && vit__quads(o->depth) % 2 == 0 &&
           wasm_i16x8_extract_lane(dot, 0) == 127 * 255;
}

/* 1 if the dot product is one instruction. As several, it would saturate sums of two products at 16
   bits. */
VIT__INLINE int vit__can_dot8_wasm(void) {
    const v128_t high = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(
        wasm_i8x16_const_splat(127), wasm_i8x16_const_splat(-1), wasm_i32x4_const_splat(1));
    const v128_t low = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(
        wasm_i8x16_const_splat(-128), wasm_i8x16_const_splat(-1), wasm_i32x4_const_splat(0));
    return wasm_i32x4_extract_lane(high, 0) == 4 * 127 * 255 + 1 &&
           wasm_i32x4_extract_lane(low, 0) == -4 * 128 * 255;
}
#    endif

static void vit__gemm_i8_wasm(float *tile, const vit__operands *o) {
    const vit__shape *shape = &vit__shape_i8_wasm;
#    if defined(__wasm_relaxed_simd__)
    static const vit__shape dot8 =
        VIT__SHAPE(VIT_I8, 2, vit__tile_dot8_wasm);
    static const vit__shape two = /* half a panel: sums of integers have a short latency */
        VIT__SHAPE(VIT_I8, 2, vit__tile_two_wasm);
    if (vit__can_dot8_wasm()) shape = &dot8;
    else if (vit__can_add16_wasm(o)) shape = &two;
#    endif
    vit__gemm_shape(shape, tile, o);
}

VIT__KERNELS(wasm, VIT_ISA_WASM_SIMD, 1, wasm,
             (vit__gemm_tiles, 8, VIT__FORM_F32, &vit__shape_f32_wasm),
             (vit__gemm_tiles, 24, VIT__FORM_F32, &vit__shape_f16_wasm),
             (vit__gemm_tiles, 24, VIT__FORM_ROUNDED, &vit__shape_bf16_wasm),
             (vit__gemm_i8_wasm, 24, VIT__FORM_U8, VIT__NO_SHAPE),
             (vit__gemm_tiles, 24, VIT__FORM_U8, &vit__shape_i4_wasm),
             (vit__gemm_tiles, 8, VIT__FORM_I16, &vit__shape_i16_wasm));

#endif /* VIT__WASM_SIMD */

VIT__OPTIMIZE_END

/* ------------------------------------------------------------------------- */
/* >>dispatch                                                                */
/* ------------------------------------------------------------------------- */

/* Chooses the tier for this machine, once for each session. The CPU must have the instructions,
   and the operating system must save the wide registers. cpuid is written by hand, because the
   compiler's helpers need symbols that shared libraries lack. */

#if VIT__AVX2
#    if VIT__GNU
static uint64_t vit__xgetbv(void) {
    uint32_t low, high;
    __asm__ __volatile__(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}
/* eax, ebx, ecx, edx */
static void vit__cpuid(unsigned leaf, unsigned subleaf, unsigned *to) {
    __cpuid_count(leaf, subleaf, to[0], to[1], to[2], to[3]);
}
#    else
VIT__TARGET_BEGIN("xsave")
static uint64_t vit__xgetbv(void) { return _xgetbv(0); }
VIT__TARGET_END
static void vit__cpuid(unsigned leaf, unsigned subleaf, unsigned *to) {
    int r[4];
    __cpuidex(r, (int)leaf, (int)subleaf);
    memcpy(to, r, sizeof r);
}
#    endif

/* Bit number `isa` is set for each tier that this CPU can run. */
static unsigned vit__detect_x86(void) {
    unsigned leaf0[4], leaf1[4], leaf7[4], leaf71[4] = { 0 }; /* eax, ebx, ecx, edx */
    const unsigned fma = 1u << 12, osxsave = 1u << 27, f16c = 1u << 29; /* leaf 1, ecx */
    const unsigned avx2 = 1u << 5;                                      /* leaf 7, ebx */
    const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  /* F DQ BW VL */
    const unsigned avx512_vnni = 1u << 11;                              /* leaf 7, ecx */
    const unsigned avx_vnni = 1u << 4, avx512_bf16 = 1u << 5;           /* leaf 7.1, eax */
    const unsigned ymm = 0x06, zmm = 0xe6;                              /* xcr0 */
    unsigned found = 1u << VIT_ISA_SCALAR | (unsigned)VIT__SSE2 << VIT_ISA_SSE2;
    uint64_t saved;
    vit__cpuid(0, 0, leaf0);
    if (leaf0[0] < 7) return found;
    vit__cpuid(1, 0, leaf1);
    if ((leaf1[2] & (fma | osxsave | f16c)) != (fma | osxsave | f16c)) return found;
    vit__cpuid(7, 0, leaf7);
    if (leaf7[0] >= 1) vit__cpuid(7, 1, leaf71);
    saved = vit__xgetbv();
    if (!(leaf7[1] & avx2) || (saved & ymm) != ymm) return found;
    found |= 1u << VIT_ISA_AVX2;
    if (leaf71[0] & avx_vnni) found |= 1u << VIT_ISA_AVX_VNNI;
    if ((leaf7[1] & avx512) != avx512 || (saved & zmm) != zmm) return found;
    found |= 1u << VIT_ISA_AVX512;
    if (!(leaf7[2] & avx512_vnni)) return found;
    found |= 1u << VIT_ISA_AVX512_VNNI;
    if (leaf71[0] & avx512_bf16) found |= 1u << VIT_ISA_AVX512_BF16;
    return found;
}
#endif

#if VIT__NEON
/* The optional instructions: bit 0 sdot, bit 1 smmla, bit 2 bfmlal. */
static unsigned vit__arm_features(void) {
    unsigned found = 0;
#    if defined(VIT__AUXV)
    const unsigned long first = getauxval(16), second = getauxval(26); /* AT_HWCAP, AT_HWCAP2 */
    if (first >> 20 & 1) found |= 1;
    if (second >> 13 & 1) found |= 2;
    if (second >> 14 & 1) found |= 4;
#    elif VIT__ASKS && defined(__APPLE__)
    static const char *const names[3] = { "hw.optional.arm.FEAT_DotProd",
                                          "hw.optional.arm.FEAT_I8MM",
                                          "hw.optional.arm.FEAT_BF16" };
    int i;
    for (i = 0; i < 3; i++) {
        int has = 0;
        size_t size = sizeof has;
        if (sysctlbyname(names[i], &has, &size, NULL, 0) == 0 && has) found |= 1u << i;
    }
#    elif VIT__ASKS && defined(_WINDOWS_) /* by number, because older headers lack the names */
    if (IsProcessorFeaturePresent(43)) found |= 1;
    if (IsProcessorFeaturePresent(66)) found |= 2;
    if (IsProcessorFeaturePresent(68)) found |= 4;
#    else
#        if defined(__ARM_FEATURE_DOTPROD)
    found |= 1;
#        endif
#        if defined(__ARM_FEATURE_MATMUL_INT8)
    found |= 2;
#        endif
#        if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    found |= 4;
#        endif
#    endif
    return found;
}

/* Bit number `isa` is set for each tier that this CPU can run. A tier includes the instructions of
   the previous tiers. */
static unsigned vit__detect_arm(void) {
    const unsigned has = vit__arm_features();
    unsigned found = 1u << VIT_ISA_SCALAR | 1u << VIT_ISA_NEON;
    if (has & 1) found |= 1u << VIT_ISA_NEON_DOTPROD;
    if ((has & 3) == 3) found |= 1u << VIT_ISA_NEON_I8MM;
    if (has == 7) found |= 1u << VIT_ISA_NEON_BF16;
    return found;
}
#endif

/* The tables of all tiers: X(enumerator, 1 if this build has it, tier). */
#define VIT__TIER_LIST(X)                                                                         \
    X(VIT_ISA_SCALAR, VIT__SCALAR, scalar)                                                        \
    X(VIT_ISA_SSE2, VIT__SSE2, sse2)                                                              \
    X(VIT_ISA_AVX2, VIT__AVX2, avx2)                                                              \
    X(VIT_ISA_AVX_VNNI, VIT__AVXVNNI, avxvnni)                                                    \
    X(VIT_ISA_AVX512, VIT__AVX512, avx512)                                                        \
    X(VIT_ISA_AVX512_VNNI, VIT__AVX512, avx512_vnni)                                              \
    X(VIT_ISA_AVX512_BF16, VIT__AVX512BF16, avx512_bf16)                                          \
    X(VIT_ISA_NEON, VIT__NEON, neon)                                                              \
    X(VIT_ISA_NEON_DOTPROD, VIT__NEON_DOTPROD, neon_dotprod)                                      \
    X(VIT_ISA_NEON_I8MM, VIT__NEON_I8MM, neon_i8mm)                                               \
    X(VIT_ISA_NEON_BF16, VIT__NEON_I8MM, neon_bf16)                                               \
    X(VIT_ISA_WASM_SIMD, VIT__WASM_SIMD, wasm)                                                    \
    X(VIT_ISA_SMLAD, VIT__SMLAD, smlad)                                                           \
    X(VIT_ISA_HELIUM, VIT__HELIUM, helium)

VIT__STATIC_ASSERT(VIT_NUM_ISAS == 0 VIT_ISA_LIST(VIT__ONE_MORE), ISA_LIST_has_a_gap);
VIT__STATIC_ASSERT(VIT_NUM_ISAS == 1 VIT__TIER_LIST(VIT__ONE_MORE), TIER_LIST_lacks_a_tier);
enum {
    VIT__AT_VIT_ISA_AUTO,
#define VIT_X(isa, is_here, tier) VIT__AT_##isa,
    VIT__TIER_LIST(VIT_X)
#undef VIT_X
};
#define VIT_X(isa, is_here, tier)                                              \
    VIT__STATIC_ASSERT((int)VIT__AT_##isa == (int)isa, isa##_is_out_of_order);
VIT__TIER_LIST(VIT_X)
#undef VIT_X

/* The tables of this build, the best last. */
#define VIT__ROW_IF_0(tier)
#define VIT__ROW_IF_1(tier) &vit__kernels_##tier,
#define VIT__ROW_IF(is_here, tier) VIT__ROW_IF_##is_here(tier)
#define VIT_X(isa, is_here, tier) VIT__ROW_IF(is_here, tier)
static const vit__kernels *const vit__tiers[] = { VIT__TIER_LIST(VIT_X) };
#undef VIT_X

/* The kernels of a tier, or with VIT_ISA_AUTO of the best one; NULL if this machine or this build
   lacks it. */
static const vit__kernels *vit__choose_kernels(vit_isa isa) {
#if VIT__AVX2
    const unsigned found = vit__detect_x86();
#elif VIT__NEON
    const unsigned found = vit__detect_arm();
#else /* the only tier compiled in */
    const unsigned found = ~0u;
#endif
    int i = (int)(sizeof vit__tiers / sizeof vit__tiers[0]);
    while (i-- > 0) {
        const vit__kernels *kernels = vit__tiers[i];
        if ((isa == VIT_ISA_AUTO || isa == kernels->isa) && found >> kernels->isa & 1u)
            return kernels;
    }
    return NULL;
}

VIT_API vit_isa vit_detect_isa(void) { return vit__choose_kernels(VIT_ISA_AUTO)->isa; }

VIT_API int vit_has_isa(vit_isa isa) { return vit__choose_kernels(isa) != NULL; }

VIT_API const char *vit_isa_name(vit_isa isa) {
    switch (isa) {
#define VIT_X(name, value, text)                                               \
    case name: return text;
        VIT_ISA_LIST(VIT_X)
#undef VIT_X
    case VIT_NUM_ISAS: break;
    }
    return "unknown";
}

/* ------------------------------------------------------------------------- */
/* >>resample                                                                */
/* ------------------------------------------------------------------------- */

/* Resamples position embeddings to another grid, and photos to the input size. Each result is a
   weighted sum of neighbours along one axis, then along the other, with the bits of the library
   that it follows (PyTorch or Pillow). */

VIT__COLD_BEGIN

/* The precision of Pillow and PyTorch, unless the build omits double. */
#if defined(VIT_NO_DOUBLE)
typedef float vit__real;
#else
typedef double vit__real;
#endif
#define VIT__HALF ((vit__real)0.5)

#if !defined(VIT_NO_DOUBLE) || !defined(VIT_NO_PREPROCESS)

/* volatile keeps the compiler from fusing the product with a following addition, which
   would change the last bit. */
static vit__real vit__product(vit__real a, vit__real b) {
    volatile vit__real product = a * b;
    return product;
}

/* Resampling filter for pixels and positions: Keys' cubic kernel with parameter a < 0 ("Cubic
   convolution interpolation for digital image processing", 1981), or a triangle if a = 0. */
static vit__real vit__kernel(vit__real a, vit__real x) {
    if (x < 0) x = -x;
    if (a >= 0) return x < 1 ? 1 - x : 0;
    if (x < 1) return vit__product(vit__product(vit__product(a + 2, x) - (a + 3), x), x) + 1;
    if (x < 2) return vit__product(vit__product(vit__product(x - 5, x) + 8, x) - 4, a);
    return 0;
}

#endif

/* --- position embeddings ----------------------------------------------------------- */

#if !defined(VIT_NO_DOUBLE)

typedef struct vit__pos_filter {
    double a;      /* parameter of vit__kernel                                   */
    int radius;    /* half the kernel's width                                    */
    int antialias; /* 1: widened when shrinking; cut off at the edges and
                      renormalised. 0: positions at an edge are repeated */
    int corners;   /* 1: the centres of the corners stay in place                */
    double larger; /* added to the new size                                      */
    int square;    /* 1: resampled to a square, of which the rest is cut off     */
} vit__pos_filter;

/* In the order of vit_pos_resample. */
static const vit__pos_filter vit__pos_filters[] = {
    { -0.5, 2, 1, 0, 0.0, 0 }, { -0.75, 2, 0, 0, 0.0, 0 }, { -0.75, 2, 0, 1, 0.0, 0 },
    { 0.0, 1, 0, 0, 0.0, 0 },  { 0.0, 1, 0, 1, 0.0, 0 },   { -0.75, 2, 0, 0, 0.1, 0 },
    { 0.0, 1, 1, 0, 0.0, 0 },  { -0.5, 2, 1, 0, 0.0, 1 },  { 0.0, 1, 0, 0, 0.0, 1 }
};
typedef char vit__assert_pos_filters[sizeof vit__pos_filters / sizeof *vit__pos_filters ==
                                             VIT_NUM_POS_RESAMPLES ? 1 : -1];

typedef struct vit__pos_axis {
    const vit__pos_filter *filter;
    int size, new_size;
    double scale;   /* old positions per new one                                 */
    double stretch; /* factor that widens the kernel                             */
} vit__pos_axis;

/* The inputs of one output: first .. first + count - 1, possibly beyond an edge. */
typedef struct vit__pos_taps {
    int first, count;
    double center, total;
} vit__pos_taps;

typedef struct vit__pos_resampler {
    vit__pos_axis down, across;
    const float *from; /* [down.size, across.size, dim]                          */
    int dim;
    int stored;        /* 1: input and output in the file's byte order           */
} vit__pos_resampler;

static void vit__pos_axis_init(vit__pos_axis *axis, vit_pos_resample how, int size, int new_size) {
    const vit__pos_filter *filter = &vit__pos_filters[how];
    axis->filter = filter;
    axis->size = size;
    axis->new_size = new_size;
    axis->scale = (double)size / ((double)new_size + filter->larger);
    if (filter->corners)
        axis->scale = new_size > 1 ? (double)(size - 1) / (double)(new_size - 1) : 0.0;
    axis->stretch = filter->antialias && axis->scale > 1.0 ? axis->scale : 1.0;
}

/* Rounded to f32, as PyTorch's weights are, so that a product with an f32 is exact in f64. */
static float vit__pos_weight(const vit__pos_axis *axis, const vit__pos_taps *taps, int tap) {
    const double distance = (double)(taps->first + tap) - taps->center + 0.5;
    return (float)(vit__kernel(axis->filter->a, distance / axis->stretch) / taps->total);
}

static void vit__pos_taps_init(const vit__pos_axis *axis, int i, vit__pos_taps *taps) {
    const vit__pos_filter *filter = axis->filter;
    const double support = vit__product((double)filter->radius, axis->stretch);
    double total = 0.0;
    int end, tap;
    taps->center = filter->corners ? vit__product(axis->scale, (double)i) + 0.5
                                   : vit__product(axis->scale, (double)i + 0.5);
    taps->total = 1.0;
    taps->first = (int)(taps->center + 0.5) - filter->radius;
    taps->count = 2 * filter->radius;
    if (!filter->antialias) return;
    taps->first = (int)(taps->center - support + 0.5);
    if (taps->first < 0) taps->first = 0;
    end = vit__min((int)(taps->center + support + 0.5), axis->size);
    taps->count = end - taps->first;
    for (tap = 0; tap < taps->count; tap++) total += (double)vit__pos_weight(axis, taps, tap);
    taps->total = total;
}

#define VIT__POS_DIMS 16 /* elements of a position that are computed together */

/* sum += weight * x. Fusing them changes nothing, because the product is exact. */
static void vit__pos_add(double *sum, float weight, const float *x, int stored, int dims) {
    int d;
    for (d = 0; d < dims; d++)
        sum[d] += (double)weight * (double)(stored ? vit__stored(x + d) : x[d]);
}

/* Elements d .. d + dims - 1 of one new position: across each row of the old grid, then down. */
static void vit__resample_position(const vit__pos_resampler *r, const vit__pos_taps *rows,
                                   const vit__pos_taps *columns, int d, int dims, float *to) {
    double sum[VIT__POS_DIMS], row_sum[VIT__POS_DIMS];
    float row[VIT__POS_DIMS];
    int y, x, i;
    memset(sum, 0, sizeof sum);
    for (y = 0; y < rows->count; y++) {
        const int old_y = vit__clamp(rows->first + y, 0, r->down.size - 1);
        memset(row_sum, 0, sizeof row_sum);
        for (x = 0; x < columns->count; x++) {
            const int old_x = vit__clamp(columns->first + x, 0, r->across.size - 1);
            const size_t old = (size_t)old_y * (size_t)r->across.size + (size_t)old_x;
            vit__pos_add(row_sum, vit__pos_weight(&r->across, columns, x),
                         r->from + old * (size_t)r->dim + d, r->stored, dims);
        }
        for (i = 0; i < dims; i++) row[i] = (float)row_sum[i];
        vit__pos_add(sum, vit__pos_weight(&r->down, rows, y), row, 0, dims);
    }
    for (i = 0; i < dims; i++) row[i] = (float)sum[i];
    if (r->stored) vit__copy_stored(to + d, row, (size_t)dims);
    else memcpy(to + d, row, (size_t)dims * sizeof(float));
}

static void vit__resample_positions(const vit__pos_resampler *r, float *to) {
    vit__pos_taps rows, columns;
    int y, x, d;
    for (y = 0; y < r->down.new_size; y++) {
        vit__pos_taps_init(&r->down, y, &rows);
        for (x = 0; x < r->across.new_size; x++, to += r->dim) {
            vit__pos_taps_init(&r->across, x, &columns);
            for (d = 0; d < r->dim; d += VIT__POS_DIMS)
                vit__resample_position(r, &rows, &columns, d, vit__min(VIT__POS_DIMS, r->dim - d),
                                       to);
        }
    }
}

static void vit__pos_resampler_init(vit__pos_resampler *r, vit_pos_resample how, vit_grid from,
                                    vit_grid to) {
    const int square = vit__pos_filters[how].square, longer = vit__max(to.height, to.width);
    vit__pos_axis_init(&r->down, how, from.height, square ? longer : to.height);
    vit__pos_axis_init(&r->across, how, from.width, square ? longer : to.width);
    r->down.new_size = to.height;
    r->across.new_size = to.width;
}

VIT_API void vit_resample_positions(vit_pos_resample how, int dim, const float *from,
                                    vit_grid from_grid, float *to, vit_grid to_grid) {
    vit__pos_resampler r;
    vit__pos_resampler_init(&r, how, from_grid, to_grid);
    r.from = from;
    r.dim = dim;
    r.stored = 0;
    vit__resample_positions(&r, to);
}

/* --- relative positions ----------------------------------------------------------------- */

/* BEiT's resampling along one axis: `old` distances become `now`, in each direction from 0. */
typedef struct vit__rel_axis {
    int old, now;
    double ratio; /* of each step between old distances to the previous step        */
} vit__rel_axis;

/* 1 + q + q^2 + ..., n terms. */
static double vit__geometric(double q, int n) {
    double sum = 0.0, term = 1.0;
    for (; n > 0; n--) {
        sum += term;
        term = vit__product(term, q);
    }
    return sum;
}

/* Finds the ratio by bisection, within the bounds of BEiT's code. */
static void vit__rel_axis_init(vit__rel_axis *axis, int side, int new_side) {
    double low = 1.01, high = 1.5;
    axis->old = side - 1;
    axis->now = new_side - 1;
    axis->ratio = low;
    while (high - low > 1e-6) {
        axis->ratio = (low + high) / 2;
        if (vit__geometric(axis->ratio, axis->old) > (double)axis->now) high = axis->ratio;
        else low = axis->ratio;
    }
}

/* A place between two old distances, given by their indices in the row. */
typedef struct vit__rel_place {
    int left, right;
    double part; /* weight of the right one                                       */
} vit__rel_place;

/* The place of new distance i among the old ones, clamped to the ends. */
static vit__rel_place vit__rel_find(const vit__rel_axis *axis, int i) {
    const int distance = i < axis->now ? axis->now - i : i - axis->now;
    const int sign = i < axis->now ? -1 : 1;
    double sum = 0.0, step = 1.0;
    float at = 0.0f, before = 0.0f;
    vit__rel_place place;
    int n;
    for (n = 0; n < axis->old && at < (float)distance; n++) {
        sum += step;
        step = vit__product(step, axis->ratio);
        before = at;
        at = (float)sum;
    }
    place.left = place.right = axis->old + sign * n;
    place.part = 0.0;
    if (at <= (float)distance) return place;
    if (sign > 0) place.left--;
    else place.right++;
    place.part = sign > 0 ? ((double)distance - (double)before) : ((double)at - (double)distance);
    place.part /= (double)at - (double)before;
    return place;
}

static double vit__rel_between(double part, double left, double right) {
    return vit__product(1 - part, left) + vit__product(part, right);
}

static double vit__rel_value(const float *row, const vit__rel_place *x, int stored) {
    const float left = stored ? vit__stored(row + x->left) : row[x->left];
    const float right = stored ? vit__stored(row + x->right) : row[x->right];
    return vit__rel_between(x->part, (double)left, (double)right);
}

static void vit__resample_distances(const float *from, vit_grid grid, float *to,
                                    vit_grid new_grid, int stored) {
    const int columns = 2 * grid.width - 1;
    vit__rel_axis down, across;
    int y, x;
    vit__rel_axis_init(&down, grid.height, new_grid.height);
    vit__rel_axis_init(&across, grid.width, new_grid.width);
    for (x = 0; x < 2 * new_grid.width - 1; x++) {
        const vit__rel_place column = vit__rel_find(&across, x);
        for (y = 0; y < 2 * new_grid.height - 1; y++) {
            const vit__rel_place row = vit__rel_find(&down, y);
            const float value = (float)vit__rel_between(
                row.part, vit__rel_value(from + row.left * columns, &column, stored),
                vit__rel_value(from + row.right * columns, &column, stored));
            float *at = to + y * (2 * new_grid.width - 1) + x;
            if (stored) vit__copy_stored(at, &value, 1);
            else *at = value;
        }
    }
}

static void vit__resample_relative(vit_pos_resample how, const float *from, vit_grid grid,
                                   float *to, vit_grid new_grid, int stored) {
    const vit_grid old_rows = { 2 * grid.height - 1, 2 * grid.width - 1 };
    const vit_grid new_rows = { 2 * new_grid.height - 1, 2 * new_grid.width - 1 };
    vit__pos_resampler r;
    if (how != VIT_RESAMPLE_TRANSFORMERS) {
        vit__resample_distances(from, grid, to, new_grid, stored);
        return;
    }
    vit__pos_resampler_init(&r, VIT_RESAMPLE_FLEXIVIT, old_rows, new_rows);
    r.from = from;
    r.dim = 1;
    r.stored = stored;
    vit__resample_positions(&r, to);
}

VIT_API void vit_resample_relative(vit_pos_resample how, const float *from, vit_grid from_grid,
                                   float *to, vit_grid to_grid) {
    vit__resample_relative(how, from, from_grid, to, to_grid, 0);
}

/* --- rotary positions ------------------------------------------------------------------- */

/* Cosine and sine by Taylor series, after whole quarter turns are subtracted in three parts. The
   products of the parts with fewer than 2^20 turns are exact. Errors stay far below the rounding to
   float. An angle beyond 10^15 is meaningless. */
static void vit__cosine_sine(double angle, float *cosine, float *sine) {
    double rest, square, c = 1.0, s = 1.0, turns;
    int64_t quarter;
    int i;
    if (!(angle > -1e15 && angle < 1e15)) angle = 0.0;
    turns = vit__product(angle, 0.63661977236758134308);
    quarter = (int64_t)(turns < 0 ? turns - 0.5 : turns + 0.5);
    rest = angle - vit__product((double)quarter, 1.57079632673412561417);
    rest = rest - vit__product((double)quarter, 6.07710050630396597660e-11);
    rest = rest - vit__product((double)quarter, 2.02226624879595063154e-21);
    square = vit__product(rest, rest);
    for (i = 8; i > 0; i--) {
        c = 1.0 - vit__product(square, c) / (double)(2 * i * (2 * i - 1));
        s = 1.0 - vit__product(square, s) / (double)(2 * i * (2 * i + 1));
    }
    s = vit__product(s, rest);
    *cosine = (float)(quarter & 1 ? s : c);
    *sine = (float)(quarter & 1 ? c : s);
    if ((quarter + 1) & 2) *cosine = -*cosine;
    if (quarter & 2) *sine = -*sine;
}

static double vit__rope_place(const vit_rotation *r, int place, int size) {
    const double at = (double)place + (double)r->offset;
    if (r->scale == 0.0f) return at;
    return vit__product(at / (double)size, (double)r->scale) + (double)r->origin;
}

static double vit__sum3(const float x[3]) { return (double)x[0] + (double)x[1] + (double)x[2]; }

VIT_API void vit_rope_angle(const vit_rotation *rotation, vit_grid grid, int patch,
                            float *cosine, float *sine) {
    const double row = vit__sum3(rotation->row), column = vit__sum3(rotation->column);
    const double down = vit__rope_place(rotation, patch / grid.width, grid.height);
    const double across = vit__rope_place(rotation, patch % grid.width, grid.width);
    vit__cosine_sine(vit__product(row, down) + vit__product(column, across), cosine, sine);
}

/* The grid of an input of this size. */
static vit_grid vit__grid(const vit_config *c, int height, int width) {
    vit_grid grid;
    grid.height = vit__grid_side(c, height);
    grid.width = vit__grid_side(c, width);
    return grid;
}

/* Resamples the file's positions for the model's grid; `to` is in the file's byte order too. */
static void vit__resample_stored(const vit_model *m, const float *from, float *to) {
    const vit_config *c = VIT__CONFIG(m);
    const int prefix = c->positions == VIT_POS_ALL ? c->num_prefix_tokens * c->embed_dim : 0;
    vit__pos_resampler r;
    vit__pos_resampler_init(&r, (vit_pos_resample)c->pos_resample,
                            vit__grid(c, m->file_height, m->file_width),
                            vit__grid(c, c->img_height, c->img_width));
    memcpy(to, from, (size_t)prefix * sizeof(float));
    r.from = from + prefix;
    r.dim = c->embed_dim;
    r.stored = 1;
    vit__resample_positions(&r, to + prefix);
}

#endif /* VIT_NO_DOUBLE */

/* 1 if the model's grid differs from the grid of the stored positions. */
static int vit__is_regridded(const vit_model *m) {
    const vit_config *c = VIT__CONFIG(m);
    if (VIT__IS_FIXED || !c->dynamic_img_size) return 0;
    return c->grid_height != vit__grid_side(c, m->file_height) ||
           c->grid_width != vit__grid_side(c, m->file_width);
}

static int vit__is_resampled(const vit_model *m) {
    return VIT__CONFIG(m)->positions != VIT_POS_NONE && vit__is_regridded(m);
}

/* The positions for the model's grid, in the file's byte order: `from` if they fit as stored,
   otherwise resampled to `to`. */
static const float *vit__make_positions(const vit_model *m, const float *from, float *to) {
    if (!vit__is_resampled(m)) return from;
#if !defined(VIT_NO_DOUBLE)
    vit__resample_stored(m, from, to);
#endif
    return to;
}

/* --- another input size ------------------------------------------------------- */

#if !defined(VIT_NO_DOUBLE)

/* A side of the photo before it is cropped to `side` pixels, as timm computes it. crop_pct is a
   double in timm, so it is taken as the nearest decimal fraction of six digits. */
static int vit__resize_side(const vit_config *c, int side, int file_side, int file_resize) {
    const double pct = (double)(int)(c->crop_pct * 1e6f + 0.5f) / 1e6;
    if (pct > 0.0) return side < 1e6 * pct ? (int)((double)side / pct) : 1000000; /* too large */
    return (int)((int64_t)side * file_resize / file_side);
}

VIT_API vit_result vit_model_resize(vit_model *model, int height, int width) {
    vit_config c;
    vit_result result;
    if (!vit__is_open(model)) return VIT_ERROR_ARGUMENT;
    if (VIT__IS_FIXED || !model->config.dynamic_img_size)
        return vit__fail(model->detail, VIT_ERROR_UNSUPPORTED,
                         "its input size is fixed: it is not marked dynamic_img_size");
    c = model->config;
    c.img_height = height;
    c.img_width = width;
    c.resize_height = c.resize_width = 1; /* until height and width are known to be small */
    result = vit_config_check(&c, model->detail);
    if (!result) {
        c.resize_height =
            vit__resize_side(&c, height, model->file_height, model->file_resize_height);
        c.resize_width = vit__resize_side(&c, width, model->file_width, model->file_resize_width);
        result = vit_config_check(&c, model->detail);
    }
    if (!result) model->config = c;
    return result ? VIT_ERROR_ARGUMENT : VIT_OK;
}

#endif /* VIT_NO_DOUBLE */

VIT__COLD_END

VIT__COMPACT_BEGIN

/* --- photos ------------------------------------------------------------------------ */

#ifndef VIT_NO_PREPROCESS

/* Resizes as Pillow's Resample.c does: antialiased, 8-bit, across and then down, in 22-bit fixed
   point. */
typedef struct vit__photo_axis {
    vit__real scale;                 /* input pixels per output pixel                 */
    vit__real filter_scale, support; /* widening of the kernel, half its width        */
    vit__real a;                     /* parameter of vit__kernel                      */
    int size;                        /* side of the photo                             */
    int taps;                        /* the most per output pixel, even               */
} vit__photo_axis;

static void vit__photo_axis_init(vit__photo_axis *axis, vit_interpolation interpolation, int size,
                                 int64_t new_size) {
    axis->scale = (vit__real)size / (vit__real)new_size;
    axis->filter_scale = axis->scale < 1 ? 1 : axis->scale;
    axis->support = (interpolation == VIT_BICUBIC ? 2 : 1) * axis->filter_scale;
    axis->size = size;
    axis->taps = 2 * (int)axis->support + 4; /* at least 2 * ceil(support) + 1, and even */
    axis->a = interpolation == VIT_BICUBIC ? -VIT__HALF : 0;
}

/* Splits weight i of the taps into halves. */
static void vit__put_tap(vit__taps *taps, int i, int32_t weight) {
    const int32_t low = ((weight & 0xffff) ^ 0x8000) - 0x8000;
    taps->weights[i] = (int16_t)low;
    taps->weights[vit__even(taps) + i] = (int16_t)((weight - low) / 65536);
}

/* Computes the taps of output pixel `out`. Their weights add up to 2^22, apart from rounding.
   `real` has room for axis->taps values, the taps for twice as many weights. */
static void vit__photo_taps(const vit__photo_axis *axis, int64_t out, vit__taps *taps,
                            vit__real *real) {
    const vit__real center = vit__product((vit__real)out + VIT__HALF, axis->scale);
    const vit__real inverse = 1 / axis->filter_scale;
    vit__real sum = 0;
    int begin = (int)(center - axis->support + VIT__HALF);
    int end = (int)(center + axis->support + VIT__HALF), i;
    if (begin < 0) begin = 0;
    if (end > axis->size) end = axis->size;
    for (i = 0; i < end - begin; i++) {
        const vit__real distance = (vit__real)(i + begin) - center + VIT__HALF;
        real[i] = vit__kernel(axis->a, vit__product(distance, inverse));
        sum += real[i];
    }
    taps->first = begin;
    taps->count = end - begin;
    for (i = 0; i < taps->count; i++) {
        const vit__real weight = vit__product(real[i] / sum, 4194304);
        vit__put_tap(taps, i, (int32_t)(weight < 0 ? weight - VIT__HALF : weight + VIT__HALF));
    }
    if (i % 2) vit__put_tap(taps, i, 0);
}

/* Rows of a photo that one step resizes across. */
#    define VIT__PHOTO_ROWS 16
/* Bytes of a column of VIT__PHOTO_ROWS rows. */
#    define VIT__PHOTO_COLUMN(channels) (VIT__PHOTO_ROWS * (channels) + ((channels) == 3 ? 4 : 0))

/* Computes some columns of a resized photo, row by row downwards. The pointers lead into the
   caller's scratch. It stays small for large photos, because it keeps only the rows that a few
   output rows need. Both passes sum lines of bytes: the first pass columns of 16 rows, the second
   pass rows. */
typedef struct vit__resizer {
    const vit_image *image;
    const vit__kernels *kernels;
    vit__photo_axis across, down;
    int channels;          /* resampled: 1 or 3                                       */
    int luma;              /* 1: colour to grey first, as Pillow's convert("L")       */
    int64_t left;          /* first computed column of the resized photo              */
    int columns;           /* number of computed columns                              */
    int first_row, end_row; /* rows of the photo that are in `rows`                   */
    size_t row_size;       /* columns * channels + 1, up to a multiple of 16          */
    vit__real *real;       /* [max(across.taps, down.taps)]                           */
    vit__taps *taps;       /* [columns]                                               */
    vit__taps down_taps;   /* taps of the output row                                  */
    uint8_t *block;        /* [block_columns + 1] of VIT__PHOTO_COLUMN bytes: a piece
                              of the photo, on its side */
    int block_columns;
    uint8_t *rows;         /* [max_rows + 1, row_size]: result of the first pass      */
    int max_rows;
    uint8_t *line;         /* [row_size]: the output row                              */
} vit__resizer;

/* Bytes of a pixel in a row; for planes, in a row of the first plane. */
static int vit__pixel_size(const vit_image *image) {
    static const uint8_t sizes[VIT_NUM_PIXELS] = { 3, 4, 1, 3, 4, 2, 2, 1, 4 };
    return sizes[image->format];
}

/* Bytes of a row without padding. */
static int vit__row_size(const vit_image *image) {
    const int pairs = image->format == VIT_PIXEL_YUYV || image->format == VIT_PIXEL_NV12;
    return (pairs ? vit__round_up(image->width, 2) : image->width) * vit__pixel_size(image);
}

/* Takes the next `size` bytes of scratch, 8-byte aligned; only counts them if `at` is NULL. */
static void *vit__carve(unsigned char *at, uint64_t *used, uint64_t size) {
    void *place = at ? at + *used : NULL;
    *used += (size + 7) / 8 * 8;
    return place;
}

/* Places the resizer's arrays in scratch, from *used on. */
static void vit__resizer_layout(vit__resizer *r, unsigned char *scratch, uint64_t *used) {
    const uint64_t columns = (uint64_t)r->columns, row = r->row_size;
    const uint64_t across = (uint64_t)r->across.taps, down = (uint64_t)r->down.taps;
    const uint64_t column = (uint64_t)VIT__PHOTO_COLUMN(r->channels);
    int16_t *weights;
    int x;
    r->real = (vit__real *)vit__carve(scratch, used, vit__max64(across, down) * sizeof(vit__real));
    r->taps = (vit__taps *)vit__carve(scratch, used, columns * sizeof(vit__taps));
    weights = (int16_t *)vit__carve(scratch, used, columns * across * 4);
    r->down_taps.weights = (int16_t *)vit__carve(scratch, used, down * 4);
    r->block = (uint8_t *)vit__carve(scratch, used, ((uint64_t)r->block_columns + 1) * column);
    r->rows = (uint8_t *)vit__carve(scratch, used, ((uint64_t)r->max_rows + 1) * row);
    r->line = (uint8_t *)vit__carve(scratch, used, row);
    if (!scratch) return;
    for (x = 0; x < r->columns; x++)
        r->taps[x].weights = weights + (size_t)x * (size_t)r->across.taps * 2;
    memset(r->block, 0, (size_t)(r->line - r->block));
}

static void vit__resizer_weights(vit__resizer *r) {
    int x;
    for (x = 0; x < r->columns; x++)
        vit__photo_taps(&r->across, r->left + x, &r->taps[x], r->real);
}

/* Bytes from one row of the photo to the next. */
static size_t vit__stride(const vit_image *image) {
    return (size_t)(image->stride ? image->stride : vit__row_size(image));
}

/* ITU-R 601 luma in 16-bit fixed point, as in Pillow. */
VIT__INLINE uint8_t vit__luma(const uint8_t *p) {
    return (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
}

/* Writes pixels of one row, each `size` bytes, to columns of the block. For speed, a copy of three
   colours includes the next byte, which the next row overwrites. */
VIT__INLINE void vit__turn_pixels(int size, uint8_t *to, const uint8_t *from, int pixels) {
    const uint8_t *const last = from + (size_t)(pixels - 1) * (size_t)size;
    for (; from < last; from += size, to += VIT__PHOTO_COLUMN(3)) memcpy(to, from, 4);
    memcpy(to, from, 3);
}

/* A byte of 16-bit fixed point, clamped. */
VIT__INLINE uint8_t vit__to_byte(int32_t value) {
    return value < 0 ? 0 : value >= 255 << 16 ? 255 : (uint8_t)(value >> 16);
}

/* ITU-R BT.601, limited range, in 16-bit fixed point: 76309 is 255 / 219; the others are 255 / 224
   times 1.402, 0.344136, 0.714136 and 1.772. The result is rounded and at most one step from the
   exact value. */
VIT__INLINE void vit__yuv_to_rgb(uint8_t *rgb, int32_t y, int32_t u, int32_t v) {
    const int32_t grey = 76309 * (y - 16) + 0x8000;
    rgb[0] = vit__to_byte(grey + 104597 * (v - 128));
    rgb[1] = vit__to_byte(grey - 25675 * (u - 128) - 53279 * (v - 128));
    rgb[2] = vit__to_byte(grey + 132201 * (u - 128));
}

VIT__INLINE uint8_t vit__float_to_byte(const uint8_t *from) {
    float x;
    memcpy(&x, from, sizeof x);
    if (!(x > 0)) return 0;
    return x < 1 ? (uint8_t)(vit__product((vit__real)x, 255) + VIT__HALF) : 255;
}

/* A row of a photo. */
typedef struct vit__photo_row {
    const uint8_t *pixels; /* the first plane                                         */
    const uint8_t *chroma; /* NV12: its U and V                                       */
    size_t plane;          /* F32: bytes from plane to plane                          */
} vit__photo_row;

static vit__photo_row vit__photo_row_at(const vit_image *image, int y) {
    const size_t stride = vit__stride(image);
    vit__photo_row row;
    row.plane = (size_t)image->height * stride;
    row.pixels = image->pixels + (size_t)y * stride;
    row.chroma = image->format == VIT_PIXEL_NV12
                     ? image->pixels + row.plane + (size_t)(y / 2) * stride : NULL;
    return row;
}

/* Pixel x of a row as red, green, blue; `format` is a constant except for grey models. */
VIT__INLINE void vit__read_pixel(vit_pixel format, const vit__photo_row *row, int x, uint8_t *rgb) {
    const uint8_t *const p = row->pixels;
    const size_t at = (size_t)x, even = at & ~(size_t)1;
    const int blue_first = format == VIT_PIXEL_BGR8 || format == VIT_PIXEL_BGRA8;
    const size_t size = format == VIT_PIXEL_RGBA8 || format == VIT_PIXEL_BGRA8 ? 4 : 3;
    int i;
    if (format == VIT_PIXEL_RGB565) {
        const unsigned word = p[2 * at] | (unsigned)p[2 * at + 1] << 8;
        rgb[0] = (uint8_t)((word >> 11) << 3 | word >> 13);
        rgb[1] = (uint8_t)((word >> 5 & 63) << 2 | (word >> 9 & 3));
        rgb[2] = (uint8_t)((word & 31) << 3 | (word >> 2 & 7));
    } else if (format == VIT_PIXEL_YUYV)
        vit__yuv_to_rgb(rgb, p[2 * at], p[2 * even + 1], p[2 * even + 3]);
    else if (format == VIT_PIXEL_NV12)
        vit__yuv_to_rgb(rgb, p[at], row->chroma[even], row->chroma[even + 1]);
    else if (format == VIT_PIXEL_F32)
        for (i = 0; i < 3; i++) rgb[i] = vit__float_to_byte(p + (size_t)i * row->plane + 4 * at);
    else
        for (i = 0; i < 3; i++) rgb[i] = p[at * size + (size_t)(blue_first ? 2 - i : i)];
}

/* Writes pixels [first, end) of a row, as three colours, to columns of the block. */
VIT__INLINE void vit__turn_as(vit_pixel format, uint8_t *to, const vit__photo_row *row, int first,
                              int end) {
    for (; first < end; first++, to += VIT__PHOTO_COLUMN(3))
        vit__read_pixel(format, row, first, to);
}

/* Writes pixels of row y if vit__turn_block has no faster method; grey for a model of one
   channel. */
static void vit__turn_any(const vit__resizer *r, uint8_t *to, int y, int first, int end) {
    const vit__photo_row row = vit__photo_row_at(r->image, y);
    uint8_t rgb[3];
    for (; r->luma && first < end; first++, to += VIT__PHOTO_COLUMN(1)) {
        vit__read_pixel(r->image->format, &row, first, rgb);
        *to = vit__luma(rgb);
    }
    switch (r->image->format) {
    case VIT_PIXEL_BGR8: vit__turn_as(VIT_PIXEL_BGR8, to, &row, first, end); break;
    case VIT_PIXEL_BGRA8: vit__turn_as(VIT_PIXEL_BGRA8, to, &row, first, end); break;
    case VIT_PIXEL_RGB565: vit__turn_as(VIT_PIXEL_RGB565, to, &row, first, end); break;
    case VIT_PIXEL_YUYV: vit__turn_as(VIT_PIXEL_YUYV, to, &row, first, end); break;
    case VIT_PIXEL_NV12: vit__turn_as(VIT_PIXEL_NV12, to, &row, first, end); break;
    case VIT_PIXEL_F32: vit__turn_as(VIT_PIXEL_F32, to, &row, first, end); break;
    case VIT_PIXEL_RGB8: /* vit__turn_pixels */
    case VIT_PIXEL_RGBA8:
    case VIT_PIXEL_GRAY8:
    case VIT_NUM_PIXELS: break;
    }
}

/* Copies columns [first, end) of the photo's next rows into the block. The rows are too far apart
   for hardware to prefetch. */
static void vit__turn_block(vit__resizer *r, int rows, int first, int end) {
    const size_t stride = vit__stride(r->image), size = (size_t)vit__pixel_size(r->image);
    const uint8_t *from = r->image->pixels + (size_t)r->end_row * stride + (size_t)first * size;
    const size_t bytes = (size_t)(end - first) * size;
    const vit_pixel format = r->luma ? VIT_NUM_PIXELS : r->image->format;
    size_t i;
    int row;
    for (row = 0; row < rows; row++, from += stride) {
        uint8_t *const to = r->block + row * r->channels;
        if (row + 1 < rows)
            for (i = 0; i < bytes; i += 64) VIT__PREFETCH(from + stride + i);
        if (format == VIT_PIXEL_RGB8) vit__turn_pixels(3, to, from, end - first);
        else if (format == VIT_PIXEL_RGBA8) vit__turn_pixels(4, to, from, end - first);
        else if (format == VIT_PIXEL_GRAY8)
            for (i = 0; i < bytes; i++) to[i * VIT__PHOTO_COLUMN(1)] = from[i];
        else vit__turn_any(r, to, r->end_row + row, first, end);
    }
}

/* Writes an output column of some rows, upright again. Each write of a colour includes the next
   byte, which the next column overwrites. */
static void vit__put_column(const vit__resizer *r, int rows, int x, const uint8_t *column) {
    uint8_t *to = r->rows + (size_t)(r->end_row - r->first_row) * r->row_size +
                  (size_t)(x * r->channels);
    if (r->channels == 1)
        for (; rows--; to += r->row_size) *to = *column++;
    else
        for (; rows--; to += r->row_size, column += 3) memcpy(to, column, 4);
}

/* First pass over the photo's next rows. */
static void vit__resize_across(vit__resizer *r) {
    const int rows = vit__min(VIT__PHOTO_ROWS, r->image->height - r->end_row);
    const int lanes = VIT__PHOTO_ROWS * r->channels;
    const size_t stride = (size_t)VIT__PHOTO_COLUMN(r->channels);
    uint8_t column[VIT__PHOTO_COLUMN(3)] = { 0 };
    int x, first = 0, end = 0;
    for (x = 0; x < r->columns; x++) {
        const vit__taps *const taps = &r->taps[x];
        if (taps->first + taps->count > end) {
            first = taps->first;
            end = vit__min(first + r->block_columns, r->image->width);
            vit__turn_block(r, rows, first, end);
        }
        r->kernels->resample(column, r->block + (size_t)(taps->first - first) * stride, stride,
                             taps, lanes);
        vit__put_column(r, rows, x, column);
    }
    r->end_row += rows;
}

/* Drops the rows above `first` if there is no room for more. */
static void vit__forget_rows(vit__resizer *r, int first) {
    const size_t above = (size_t)(first - r->first_row), kept = (size_t)(r->end_row - first);
    if (r->end_row + VIT__PHOTO_ROWS <= r->first_row + r->max_rows) return;
    memmove(r->rows, r->rows + above * r->row_size, kept * r->row_size);
    r->first_row = first;
}

/* Second pass: computes row y of the resized photo, the one below the previous, into line. */
static void vit__resize_down(vit__resizer *r, int64_t y) {
    vit__taps *const taps = &r->down_taps;
    vit__photo_taps(&r->down, y, taps, r->real);
    if (r->end_row < taps->first) r->first_row = r->end_row = taps->first;
    while (r->end_row < taps->first + taps->count) {
        vit__forget_rows(r, taps->first);
        vit__resize_across(r);
    }
    r->kernels->resample(r->line, r->rows + (size_t)(taps->first - r->first_row) * r->row_size,
                         r->row_size, taps, (int)r->row_size);
}

#endif /* VIT_NO_PREPROCESS */

/* ------------------------------------------------------------------------- */
/* >>preprocess                                                              */
/* ------------------------------------------------------------------------- */

/* The evaluation transform of timm on a PIL image, bit for bit: resize, crop or pad, (x / 255 -
   mean) / std. Only the pixels within the crop are computed. */

#ifndef VIT_NO_PREPROCESS

/* Python's round(), halves to even, for x >= 0. */
static int64_t vit__round_half_even(vit__real x) {
    const int64_t floor = (int64_t)x;
    const vit__real rest = x - (vit__real)floor;
    if (rest > VIT__HALF || (rest >= VIT__HALF && (floor & 1))) return floor + 1;
    return floor;
}

/* The start of a centre crop along one side. If the photo is smaller, it is minus the padding
   before the photo. */
static int64_t vit__crop_offset(const vit_config *c, int64_t resized, int size) {
    const int down = c->crop_rounding == VIT_ROUND_DOWN;
    if (size > resized) return -(((int64_t)size - resized + down) / 2);
    return down ? (resized - size) / 2 : vit__round_half_even((vit__real)(resized - size) / 2);
}

/* timm's ResizeKeepRatio: scales both sides by one factor, so that the photo covers the target
   (center) or fits into it (border). */
static void vit__keep_ratio(const vit_config *c, int64_t w, int64_t h, vit_crop *crop) {
    const vit__real down_h = (vit__real)h / (vit__real)c->resize_height;
    const vit__real down_w = (vit__real)w / (vit__real)c->resize_width;
    const int smaller = c->crop_mode == VIT_CROP_CENTER;
    const vit__real ratio = (down_h < down_w) == smaller ? down_h : down_w;
    crop->width = vit__round_half_even((vit__real)w / ratio);
    crop->height = vit__round_half_even((vit__real)h / ratio);
    if (crop->width < 1) crop->width = 1;
    if (crop->height < 1) crop->height = 1;
}

/* Squares of `size` pixels that cover a scaled side, or are nearest to it; at least 1. */
static int64_t vit__patches(const vit_config *c, int size, int64_t side, vit__real scale) {
    const vit__real exact = (vit__real)side * scale / (vit__real)size;
    int64_t whole = (int64_t)exact + ((vit__real)(int64_t)exact < exact);
    if (c->crop_rounding == VIT_ROUND_NEAREST) whole = vit__round_half_even(exact);
    return whole < 1 ? 1 : whole;
}

/* NaFlex: the largest scale at which whole patches cover the photo, and are at most as many as
   resize_* holds. Halves the range as often as the published code. VIT_ROUND_NEAREST: of the scales
   that make a side that of resize_*, the nearer to 1. */
static void vit__fit_patches(const vit_config *c, int64_t w, int64_t h, vit_crop *crop) {
    const int p = c->patch_size * vit__max(c->merge_size, 1); /* whole merged tokens */
    const int most = (c->resize_height / p) * (c->resize_width / p);
    const vit__real x = (vit__real)c->resize_width / (vit__real)w;
    const vit__real y = (vit__real)c->resize_height / (vit__real)h;
    vit__real low = (vit__real)1e-5 / 10, high = 100, scale = low;
    if (c->crop_rounding == VIT_ROUND_NEAREST)
        low = high = (x < 1 ? 1 - x : x - 1) < (y < 1 ? 1 - y : y - 1) ? x : y;
    while (high - low >= (vit__real)1e-5) {
        scale = (low + high) / 2;
        if (vit__patches(c, p, w, scale) * vit__patches(c, p, h, scale) <= most) low = scale;
        else high = scale;
    }
    crop->width = p * vit__patches(c, p, w, low);
    crop->height = p * vit__patches(c, p, h, low);
}

VIT_API void vit_find_crop(const vit_config *c, int width, int height, vit_crop *crop) {
    const int64_t w = width, h = height, size = c->resize_height;
    crop->left = crop->top = 0;
    if (c->crop_mode == VIT_CROP_ASPECT) {
        vit__fit_patches(c, w, h, crop);
        return;
    }
    crop->width = c->resize_width;
    crop->height = c->resize_height;
    if (c->crop_mode == VIT_CROP_BORDER || (c->crop_mode == VIT_CROP_CENTER && size != crop->width))
        vit__keep_ratio(c, w, h, crop);
    else if (c->crop_mode == VIT_CROP_CENTER && w <= h) /* torchvision's Resize(int) */
        crop->height = size * h / w;
    else if (c->crop_mode == VIT_CROP_CENTER)
        crop->width = size * w / h;
    crop->left = vit__crop_offset(c, crop->width, c->img_width);
    crop->top = vit__crop_offset(c, crop->height, c->img_height);
}

/* The state of one call of vit_preprocess. */
typedef struct vit__transform {
    const vit_config *config;
    vit_crop crop;
    int first_x, end_x; /* columns of the input that show the photo              */
    int first_y, end_y; /* rows likewise                                         */
    float *table;       /* [in_chans, 256]: every byte, normalised               */
    vit__resizer resizer;
} vit__transform;

/* Rejects images that vit_preprocess cannot take. */
static vit_result vit__check_image(const vit_config *c, const vit_image *image) {
    if (!image || !image->pixels || image->width < 1 || image->height < 1 ||
        image->width > 1 << 20 || image->height > 1 << 20 || image->stride < 0 ||
        (unsigned)image->format >= VIT_NUM_PIXELS ||
        (image->stride && image->stride < vit__row_size(image)))
        return VIT_ERROR_ARGUMENT;
    if (vit__is_text(c) || c->crop_mode == VIT_CROP_ASPECT) return VIT_ERROR_UNSUPPORTED;
    return c->in_chans == 1 || c->in_chans == 3 ? VIT_OK : VIT_ERROR_UNSUPPORTED;
}

static void vit__transform_init(vit__transform *t, const vit_config *c, const vit_image *image) {
    const vit_interpolation interpolation = (vit_interpolation)c->interpolation;
    vit__resizer *r = &t->resizer;
    int64_t end_x, end_y;
    memset(t, 0, sizeof *t);
    t->config = c;
    vit_find_crop(c, image->width, image->height, &t->crop);
    t->first_x = (int)(t->crop.left < 0 ? -t->crop.left : 0);
    t->first_y = (int)(t->crop.top < 0 ? -t->crop.top : 0);
    end_x = t->crop.width - t->crop.left;
    end_y = t->crop.height - t->crop.top;
    t->end_x = end_x < c->img_width ? (int)end_x : c->img_width;
    t->end_y = end_y < c->img_height ? (int)end_y : c->img_height;
    r->image = image;
    r->channels = image->format == VIT_PIXEL_GRAY8 ? 1 : c->in_chans;
    r->luma = r->channels == 1 && image->format != VIT_PIXEL_GRAY8;
    vit__photo_axis_init(&r->across, interpolation, image->width, t->crop.width);
    vit__photo_axis_init(&r->down, interpolation, image->height, t->crop.height);
    r->left = t->crop.left + t->first_x;
    r->columns = t->end_x - t->first_x;
    r->row_size = (size_t)vit__round_up(r->columns * r->channels + 1, 16);
    r->block_columns = vit__min(6 * r->across.taps, image->width);
    r->max_rows = vit__min(2 * r->down.taps, image->height) + VIT__PHOTO_ROWS;
}

/* Places all arrays in scratch, 8-byte aligned; returns their size in bytes. */
static uint64_t vit__transform_layout(vit__transform *t, unsigned char *scratch) {
    const uint64_t table_size = (uint64_t)t->config->in_chans * 256 * sizeof(float);
    uint64_t used = 0;
    t->table = (float *)vit__carve(scratch, &used, table_size);
    vit__resizer_layout(&t->resizer, scratch, &used);
    return used;
}

/* (v / 255 - mean) / std of every byte, in torch's order and precision. */
static void vit__fill_table(const vit_config *c, float *table) {
    int channel, v;
    for (channel = 0; channel < c->in_chans; channel++)
        for (v = 0; v < 256; v++)
            table[256 * channel + v] = ((float)v / 255.0f - c->mean[channel]) / c->std[channel];
}

/* Row y of one channel of the input: padding, photo, padding. */
static void vit__write_row(const vit__transform *t, int y, int channel, float *out) {
    const vit_config *c = t->config;
    const float *table = t->table + 256 * channel;
    const int step = t->resizer.channels, shows = y >= t->first_y && y < t->end_y;
    const int first = shows ? t->first_x : 0, end = shows ? t->end_x : 0;
    const uint8_t *from = t->resizer.line + (step == 3 ? channel : 0);
    const int pad = c->crop_mode == VIT_CROP_BORDER
                        ? (int)vit__round_half_even(255 * (vit__real)c->mean[channel]) & 255
                        : 0;
    int x;
    for (x = 0; x < first; x++) out[x] = table[pad];
    for (; x < end; x++, from += step) out[x] = table[*from];
    for (; x < c->img_width; x++) out[x] = table[pad];
}

VIT_API vit_result vit_model_fit(const vit_model *model, const vit_image *image,
                                 vit_model *fitted) {
    vit_result result;
    vit_config c;
    vit_crop crop;
    if (!vit__is_open(model) || !fitted) return VIT_ERROR_ARGUMENT;
    c = model->config; /* fitted may be model */
    *fitted = *model;
    if (c.crop_mode != VIT_CROP_ASPECT) return vit__check_image(VIT__CONFIG(model), image);
    fitted->config.crop_mode = VIT_CROP_SQUASH;
    result = vit__check_image(&fitted->config, image);
    if (result) return result;
    vit_find_crop(&c, image->width, image->height, &crop);
#ifdef VIT_NO_DOUBLE
    return VIT_ERROR_UNSUPPORTED;
#else
    result = vit_model_resize(fitted, (int)crop.height, (int)crop.width);
    fitted->config.resize_height = fitted->config.img_height;
    fitted->config.resize_width = fitted->config.img_width;
    return result;
#endif
}

VIT_API size_t vit_preprocess_size(const vit_model *model, const vit_image *image) {
    vit__transform t;
    if (!vit__is_open(model) || vit__check_image(VIT__CONFIG(model), image)) return 0;
    vit__transform_init(&t, VIT__CONFIG(model), image);
    return vit__size(vit__transform_layout(&t, NULL) + 8); /* 8: to align it */
}

/* scratch must have vit_preprocess_size bytes. */
static void vit__preprocess(vit__transform *t, void *scratch, float *input) {
    const vit_config *c = t->config;
    const size_t width = (size_t)c->img_width, plane = width * (size_t)c->img_height;
    int y, channel;
    t->resizer.kernels = vit__choose_kernels(VIT_ISA_AUTO);
    vit__transform_layout(t, (unsigned char *)scratch + 8 - (uintptr_t)scratch % 8);
    vit__fill_table(c, t->table);
    vit__resizer_weights(&t->resizer);
    for (y = 0; y < c->img_height; y++) {
        if (y >= t->first_y && y < t->end_y) vit__resize_down(&t->resizer, y + t->crop.top);
        for (channel = 0; channel < c->in_chans; channel++)
            vit__write_row(t, y, channel, input + (size_t)channel * plane + (size_t)y * width);
    }
}

VIT_API vit_result vit_preprocess(const vit_model *model, const vit_image *image, float *input,
                                  void *scratch, size_t scratch_size) {
    const size_t size = vit_preprocess_size(model, image);
    vit__transform t;
    vit_result result;
    void *own = NULL;
    if (!vit__is_open(model) || !input) return VIT_ERROR_ARGUMENT;
    result = vit__check_image(VIT__CONFIG(model), image);
    if (result) return result;
    if (size == 0 || (scratch && scratch_size < size)) return VIT_ERROR_MEMORY;
#    ifndef VIT_NO_MALLOC
    if (!scratch) scratch = own = VIT_MALLOC(size);
#    endif
    if (!scratch) return VIT_ERROR_MEMORY;
    vit__transform_init(&t, VIT__CONFIG(model), image);
    vit__preprocess(&t, scratch, input);
#    ifndef VIT_NO_MALLOC
    if (own) VIT_FREE(own);
#    else
    (void)own;
#    endif
    return VIT_OK;
}

#endif /* VIT_NO_PREPROCESS */

/* ------------------------------------------------------------------------- */
/* >>layers                                                                  */
/* ------------------------------------------------------------------------- */

/* The parts of every layer: weights found by their names, linear layers, and rows on their way
   into one (norm, gate, conversion). Each function splits its work into tasks for the executor.
   The split changes no result, because one task computes each whole element, in one order. */

static void vit__parallel_for(const vit_session *s, int count, vit_task *task, void *arg) {
    if (VIT__EXECUTOR && count > 1 && s->params.executor.parallel_for)
        s->params.executor.parallel_for(s->params.executor.user, count, task, arg);
    else
        vit__serial_for(count, task, arg);
}

/* 1 if this build has only one tier, whose kernels are then constants. If it also has only one type
   of weights, the matrix product is a constant too. */
VIT__INLINE int vit__has_one_tier(void) { return sizeof vit__tiers == sizeof vit__tiers[0]; }

VIT__INLINE const vit__kernels *vit__known_kernels(const vit__kernels *kernels) {
    return vit__has_one_tier() ? vit__tiers[0] : kernels;
}

VIT__INLINE const vit__gemm_kernel *vit__known_gemm(const vit__gemm_kernel *gemm) {
    const int known = vit__has_one_tier() && VIT__DTYPES == 1u << VIT_F32;
    return known ? &vit__tiers[0]->gemm[VIT_F32] : gemm;
}

static const vit__kernels *vit__kernels_of(const vit_session *s) {
    return vit__known_kernels((const vit__kernels *)s->kernels);
}

/* Constants, if the build fixes their values. */
#if defined(VIT_LOW_MEMORY) && defined(VIT_NO_TRACE) && defined(VIT_FIXED)
#    define VIT__ALWAYS_LOW /* except for parallel blocks */
#endif

static int vit__threads(const vit_params *params) {
    return VIT__EXECUTOR ? params->executor.num_threads : 1;
}

static int vit__is_low(const vit_params *params) {
#if defined(VIT__ALWAYS_LOW)
    (void)params;
    return !vit__shares_norm(&vit__fixed);
#else
    return params->low_memory;
#endif
}

/* The batch of a pass, constant 1 without an executor. */
VIT__INLINE int vit__known_batch(int batch) { return VIT__EXECUTOR ? batch : 1; }

/* Images computed together. */
static int vit__batch(const vit_session *s) { return vit__known_batch(s->params.batch); }

/* Part `index` of `count` shares of n things, [first, return value). The shares are equal, or the
   first ones are larger by one. */
static int vit__share_end(int n, int index, int count) {
    return n / count * (index + 1) + vit__min(n % count, index + 1);
}

static int vit__share(int n, int index, int count, int *first) {
    *first = vit__share_end(n, index - 1, count);
    return vit__share_end(n, index, count);
}

/* A workspace that hands out its memory from front to back. If base is NULL, the same function only
   measures how much it would take. */
typedef struct vit__arena {
    float *base;   /* aligned to 64 bytes, or NULL */
    uint64_t used; /* floats; a multiple of 16 */
} vit__arena;

VIT__CALL float *vit__take(vit__arena *arena, uint64_t floats) {
    float *at = arena->base ? arena->base + (size_t)arena->used : NULL;
    arena->used += vit__round64(floats);
    return at;
}

/* Rows of floats in memory: [rows, cols], ld floats from one to the next. */
typedef struct vit__mat {
    float *data;
    size_t ld;
    int rows, cols;
} vit__mat;

static vit__mat vit__matrix(float *data, size_t ld, int rows, int cols) {
    vit__mat m;
    m.data = data;
    m.ld = ld;
    m.rows = rows;
    m.cols = cols;
    return m;
}

/* --- a pass: tracing and timing ----------------------------------------------------- */

/* Some images on their way through the network. */
typedef struct vit__pass {
    const vit_session *session;
    int stage, block;     /* position, as in vit__address: for names in a trace                */
    int batch;
    int queries;          /* tokens of each image that later steps read, from the first on: */
                          /* all N, or in the last block only those that the head reads */
    const float *pixels;  /* of texts: [batch, img_width] ids as floats, or NULL               */
    const int *ids;       /* [batch, img_width] ids, or NULL                                   */
    const uint8_t *mask;  /* [batch, N]: 0 for tokens to which none attends; or NULL           */
    float *maps;          /* [batch, H, N, N]: attention, for the caller; or NULL              */
} vit__pass;

static vit__pass vit__begin_pass(const vit_session *s, int batch) {
    vit__pass p;
    p.session = s;
    p.stage = p.block = -1;
    p.batch = batch;
    p.queries = VIT__CONFIG(s->model)->num_tokens;
    p.pixels = NULL;
    p.ids = NULL;
    p.mask = NULL;
    p.maps = NULL;
    return p;
}

/* The caller's function; NULL in a build without traces. */
static vit_trace *vit__trace_of(const vit_params *params) {
    return VIT__IS(VIT_NO_TRACE) ? NULL : params->trace;
}

static int vit__is_traced(const vit_session *s) { return vit__trace_of(&s->params) != NULL; }

static void vit__phase(const vit_session *s, vit_phase phase) {
    if (VIT__IS(VIT_NO_TRACE) || !s->params.on_phase) return;
    s->params.on_phase(s->params.phase_user, phase);
}

/* Traces a tensor [batch, d1, d2, d3]; an unused dimension is 0. Inside a block, name begins with a
   dot or is empty, and follows the block's name. */
static void vit__show(const vit__pass *p, const char *name, const float *data, int d1, int d2,
                      int d3) {
    const vit_session *s = p->session;
    vit__address address = { -1, -1, NULL, 0 };
    char full[64];
    vit__text text;
    int shape[4];
    if (!vit__is_traced(s)) return;
    address.stage = p->stage;
    address.block = p->block;
    text.at = full;
    text.end = full + sizeof full - 1;
    vit__put_address(&text, &address);
    if (p->block >= 0) text.at--; /* the dot after the address */
    vit__put(&text, name);
    shape[0] = p->batch;
    shape[1] = d1;
    shape[2] = d2;
    shape[3] = d3;
    s->params.trace(s->params.trace_user, full, data, shape);
}

/* Traces the rows of all images. Rows without a name are not traced. */
static void vit__show_rows(const vit__pass *p, const char *name, vit__mat rows) {
    if (name && vit__is_traced(p->session))
        vit__show(p, name, rows.data, rows.rows / p->batch, rows.cols, 0);
}

/* --- weights ------------------------------------------------------------------------ */

/* The lists of >>arch as structs, with a member for each row: w->qkv. */
#define VIT_X(id, name, kind, dims, condition, bias) VIT__TYPE_##kind id;
typedef struct vit__front_layers { VIT__FRONT_LIST(VIT_X) } vit__front_layers;
typedef struct vit__down_layers { VIT__DOWN_LIST(VIT_X) } vit__down_layers;
typedef struct vit__unit_layers { VIT__UNIT_LIST(VIT_X) } vit__unit_layers;
typedef struct vit__block_layers { VIT__BLOCK_LIST(VIT_X) } vit__block_layers;
typedef struct vit__tail_layers { VIT__TAIL_LIST(VIT_X) } vit__tail_layers;
#undef VIT_X

/* The layer whose first tensor is number `index`, if it has tensors. */
static vit__layer vit__read_layer(const vit_model *m, int index, int tensors) {
    vit__layer layer;
    vit_tensor t;
    memset(&layer, 0, sizeof layer);
    if (tensors == 0) return layer;
    vit_model_tensor(m, index, &t);
    layer.weight = (const float *)t.data;
    layer.dtype = t.dtype;
    layer.cols = t.dims[0];
    layer.depth = vit__depth_of(&t);
    layer.fits16 = VIT__HAS_FITS16 && m->fits16 && m->fits16[index];
    if (tensors == 1) return layer;
    vit_model_tensor(m, index + 1, &t);
    layer.bias = (const float *)t.data;
    return layer;
}

/* Fills one of those structs, of n members; its first tensor is number `index`. */
static void vit__find_layers(const vit_model *m, int index, const vit__presence *rows, int n,
                             void *layers) {
    unsigned char *at = (unsigned char *)layers;
    for (; n; n--, rows++) {
        const int tensors = vit__num_tensors(VIT__CONFIG(m), rows);
        const vit__layer layer = vit__read_layer(m, index, tensors);
        memcpy(at, &layer, rows->size); /* vit__affine and vit__values are its prefixes */
        at += rows->size;
        index += tensors;
    }
}

static void vit__find_front(const vit_model *m, vit__front_layers *layers) {
    vit__find_layers(m, 0, vit__front_presence, VIT__NUM_FRONT, layers);
}

/* The first tensors of a unit of the stem's stages, and of a transformer block. */
static int vit__unit_index(const vit_config *c, int stage, int block) {
    return vit__count(c, vit__front_presence, VIT__NUM_FRONT) + vit__unit_start(c, stage, block);
}

static int vit__block_index(const vit_config *c, int block) {
    return vit__unit_index(c, VIT__NUM_STAGES, 0) +
           vit__count(c, vit__block_presence, VIT__NUM_BLOCK) * block;
}

static void vit__find_block(const vit_model *m, int block, vit__block_layers *layers) {
    vit__find_layers(m, vit__block_index(VIT__CONFIG(m), block), vit__block_presence,
                     VIT__NUM_BLOCK, layers);
}

/* The tail begins where block number `depth` would. */
static void vit__find_tail(const vit_model *m, vit__tail_layers *layers) {
    vit__find_layers(m, vit__block_index(VIT__CONFIG(m), VIT__CONFIG(m)->depth),
                     vit__tail_presence, VIT__NUM_TAIL, layers);
}

/* y = a + b * factor, with b in the file's byte order and factor NULL for ones. */
static void vit__add_stored(const vit__kernels *kernels, float *y, const float *a, const float *b,
                            const float *factor, int n) {
    int i;
    if (!VIT__BIG_ENDIAN) kernels->add(y, a, b, factor, n);
    for (i = 0; i < n && VIT__BIG_ENDIAN; i++)
        y[i] = factor ? vit__fma_scalar(vit__stored(b + i), factor[i], a[i])
                      : a[i] + vit__stored(b + i);
}

/* --- linear: y = x w^T + b ----------------------------------------------------- */

typedef struct vit__linear {
    const vit__kernels *kernels;
    const vit__gemm_kernel *gemm;
    const unsigned char *panels; /* [cols, depth] in panels of 16 columns of the result */
    size_t stride;               /* bytes of a panel */
    int rows, cols, depth;
    const void *a;               /* [rows, depth], in the kernel's form */
    size_t lda;                  /* bytes */
    vit__output out;             /* [rows, cols] */
    int first_panel, end_panel;  /* the required columns of the result, usually all */
    int num_tiles;               /* the rows, cut into tiles as equal as possible */
    int fits16;                  /* as in vit__operands */
#if VIT__AVX2
    int ahead;                   /* panels from one group of a thread to its next; 0 for no more */
#endif
} vit__linear;

/* The form of rows that are multiplied by this layer's weight. */
static vit__form vit__form_of(const vit_session *s, const vit__layer *layer) {
    return vit__kernels_of(s)->gemm[vit__known_dtype(layer->dtype)].form;
}

/* Floats of a row of n elements in this form: n or fewer, because rows are converted in place. int8
   and int4 need at least 4 and 16 elements for that; see vit__fits_depth. */
static int vit__form_floats(vit__form form, int n) {
    if (VIT__SIMD && form == VIT__FORM_BF16) return vit__ceil_div(n, 2);
    if (VIT__HAS_U8 && form >= VIT__FORM_U8)
        return vit__min(n, VIT__U8_HEADER / 4 + vit__ceil_div(n, 32) * 8);
    return n;
}

static void vit__linear_rows(vit__linear *l, int rows) {
    l->rows = rows;
    l->num_tiles = vit__ceil_div(rows, vit__known_gemm(l->gemm)->tile_rows);
}

/* The caller then sets the number of rows, the input and the output. */
static void vit__linear_init(vit__linear *l, const vit__kernels *kernels,
                             const vit__layer *layer) {
    memset(l, 0, sizeof *l);
    l->kernels = kernels;
    l->gemm = &kernels->gemm[vit__known_dtype(layer->dtype)];
    l->panels = (const unsigned char *)(const void *)layer->weight;
    l->stride = (size_t)vit__panel_bytes(layer->dtype, layer->depth);
    l->cols = layer->cols;
    l->depth = layer->depth;
    l->fits16 = layer->fits16;
    l->end_panel = vit__ceil_div(layer->cols, 16);
    l->out.bias = layer->bias;
}

/* The end of the rows of tile t. A tile of many rows consists of register tiles of 2, 3 or 6 rows,
   which should be full. */
static int vit__tile_end(const vit__linear *l, int t) {
    const int unit = vit__known_gemm(l->gemm)->tile_rows % 12 == 0 ? 6 : 1;
    return vit__min(l->rows, unit * vit__share_end(vit__ceil_div(l->rows, unit), t, l->num_tiles));
}

#if VIT__AVX2
/* The part of the thread's next group of panels that tile t of a group prefetches, or NULL: an
   eighth of a panel, so that 24 tiles fetch the three panels of a group. */
static const unsigned char *vit__ahead(const vit__linear *l, int panel, int panels, int t) {
    const int next = panel + l->ahead;
    if (!l->ahead || next + panels > l->end_panel || t >= 24) return NULL;
    return l->panels + (size_t)next * l->stride + (size_t)t * (l->stride / 8);
}
#endif

/* Tiles [first_tile, end_tile) times panels [panel, panel_end). A group of panels stays in the L2
   cache while the rows stream past it. */
static void vit__gemm(const vit__linear *l, int first_tile, int end_tile, int panel,
                      int panel_end) {
    const vit__kernels *kernels = vit__known_kernels(l->kernels);
    const vit__gemm_kernel *gemm = vit__known_gemm(l->gemm);
    const int tile_panels = kernels->tile_panels, tile_cols = tile_panels * 16;
    float sums[VIT__MAX_TILE_ROWS * VIT__MAX_TILE_COLS];
    vit__operands o;
    vit__tile tile;
    tile.data = sums;
    tile.ld = tile_cols;
    o.lda = l->lda;
    o.depth = l->depth;
    o.fits16 = l->fits16;
#if VIT__SHAPES
    o.shape = gemm->shape;
#endif
    for (; panel < panel_end; panel += tile_panels) {
        const int panels = vit__min(tile_panels, panel_end - panel);
        const int cols = vit__min(panels * 16, l->cols - panel * 16);
        /* With an empty epilogue, the kernel writes to memory directly. */
        const int direct = !VIT__SMALL && !l->out.bias && !l->out.act && !l->out.add &&
                           cols == panels * 16;
        vit__output out = l->out;
        int t, row, end;
        tile.cols = cols;
        o.ldt = direct ? out.ldc : (size_t)tile_cols;
        o.panel = l->panels + (size_t)panel * l->stride;
        o.panels = panels;
        end = vit__tile_end(l, first_tile - 1);
        if (out.bias) out.bias += panel * 16;
        if (out.gamma) out.gamma += panel * 16;
        for (t = first_tile; t < end_tile; t++) {
            row = end;
            end = vit__tile_end(l, t);
            o.a = (const unsigned char *)l->a + (size_t)row * l->lda;
            o.rows = end - row;
#if VIT__AVX2
            o.ahead = vit__ahead(l, panel, panels, t - first_tile);
#endif
            out.c = l->out.c + (size_t)row * out.ldc + panel * 16;
            gemm->run(direct ? out.c : sums, &o);
            tile.rows = o.rows;
            if (!direct) kernels->output(&out, &tile);
        }
    }
}

/* A task is a group of panels times a chunk of tiles. */
typedef struct vit__linear_job {
    const vit__linear *linear;
    int num_groups, num_chunks;
} vit__linear_job;

static void vit__linear_task(void *arg, int index) {
    const vit__linear_job *job = (const vit__linear_job *)arg;
    const vit__linear *l = job->linear;
    const int tile_panels = l->kernels->tile_panels;
    const int panel = l->first_panel + index % job->num_groups * tile_panels;
    int first, end = vit__share(l->num_tiles, index / job->num_groups, job->num_chunks, &first);
    vit__gemm(l, first, end, panel, vit__min(panel + tile_panels, l->end_panel));
}

/* One chunk per 256 rows, which fit the L2 cache together with the weights; more if the threads
   would have too few tasks. */
static void vit__linear_run(const vit_session *s, const vit__linear *l) {
    /* Four tasks a thread: if the system delays a thread, the others take three of its tasks. */
    const int threads = vit__threads(&s->params), wanted = threads > 1 ? 4 * threads : 1;
    vit__linear_job job;
#if VIT__AVX2
    vit__linear part = *l;
    part.ahead = threads * l->kernels->tile_panels;
    l = &part;
#endif
    if (!VIT__EXECUTOR) {
        vit__gemm(l, 0, l->num_tiles, l->first_panel, l->end_panel);
        return;
    }
    job.linear = l;
    job.num_groups = vit__ceil_div(l->end_panel - l->first_panel, l->kernels->tile_panels);
    job.num_chunks = vit__ceil_div(l->rows, 256);
    if (job.num_chunks * job.num_groups < wanted)
        job.num_chunks = vit__min(vit__ceil_div(wanted, job.num_groups), l->num_tiles);
    vit__parallel_for(s, job.num_chunks * job.num_groups, vit__linear_task, &job);
}

/* A layer of the model, from rows `in`, already in its form, to rows of `out`. The caller may then
   set act, add and gamma. */
VIT__CALL void vit__layer_init(vit__linear *l, const vit_session *s, const vit__layer *layer,
                            vit__mat in, vit__mat out) {
    vit__linear_init(l, vit__kernels_of(s), layer);
    vit__linear_rows(l, in.rows);
    l->a = in.data;
    l->lda = in.ld * sizeof(float);
    l->out.c = out.data;
    l->out.ldc = out.ld;
}

/* act(in w^T + b), without gaps between the rows, at `to`. A trace sees it under `name`, unless
   that is NULL, before the activation, and so computes the product twice. */
static vit__mat vit__layer_run(const vit__pass *p, const vit__layer *layer, vit__mat in, float *to,
                               int act, const char *name) {
    const vit_session *s = p->session;
    const vit__mat out = vit__matrix(to, (size_t)layer->cols, in.rows, layer->cols);
    vit__linear l;
    vit__layer_init(&l, s, layer, in, out);
    if (act && name && vit__is_traced(s)) {
        vit__linear_run(s, &l);
        vit__show_rows(p, name, out);
        name = NULL;
    }
    l.out.act = act;
    vit__linear_run(s, &l);
    vit__show_rows(p, name, out);
    return out;
}

/* x += gamma * branch, with the two additions of the epilogue. */
static void vit__add_rows(const vit_session *s, const float *gamma, vit__mat branch, vit__mat x) {
    const vit__kernels *kernels = vit__kernels_of(s);
    int r;
    for (r = 0; r < x.rows; r++, x.data += x.ld, branch.data += branch.ld)
        if (gamma) vit__add_stored(kernels, x.data, x.data, gamma, branch.data, x.cols);
        else kernels->add(x.data, x.data, branch.data, NULL, x.cols);
}

/* Memory for the output of a layer that reads `in`: y if `in` is in scratch, otherwise scratch. */
static float *vit__spare(const vit_session *s, vit__mat in) {
    return in.data == s->scratch ? s->y : s->scratch;
}

/* x += gamma * (in w^T + b), straight from the matrix product. A trace shows the product, so it
   takes two steps, which give the same bits. */
VIT__CALL void vit__layer_add(const vit__pass *p, const vit__layer *layer, vit__mat in,
                           const float *gamma, vit__mat x, const char *name) {
    const vit_session *s = p->session;
    vit__linear l;
    if (name && vit__is_traced(s)) {
        float *to = vit__spare(s, in);
        vit__add_rows(s, gamma, vit__layer_run(p, layer, in, to, VIT__NO_ACT, name), x);
        return;
    }
    vit__layer_init(&l, s, layer, in, x);
    l.out.add = 1;
    l.out.gamma = gamma;
    vit__linear_run(s, &l);
}

/* --- row-wise: gates, norms, conversion to a layer's input --------------------------- */

/* Steps of each row on its way into a layer, in this order; all are optional. */
typedef struct vit__rows {
    const vit_session *session;
    const float *x;               /* rows, ldx apart, to copy to y unless x is y */
    size_t ldx;
    vit__mat y;
    int gate;                     /* VIT__ACT(...) of a gated MLP, in place             */
    vit__norm_spec norm;          /* weight NULL for none; of each norm.dim elements    */
    vit__form form;               /* of y, afterwards                                   */
    int num_tasks;
} vit__rows;

/* Prepares a job from x to rows without gaps, which may overwrite x. There is no norm if norm is
   NULL or has no weight. */
static void vit__rows_init(vit__rows *job, const vit_session *s, const vit__affine *norm,
                           vit__mat x, float *to) {
    job->session = s;
    job->x = x.data;
    job->ldx = x.ld;
    job->y.data = to;
    job->y.ld = (size_t)x.cols;
    job->y.rows = x.rows;
    job->y.cols = x.cols;
    job->gate = VIT__NO_ACT;
    job->norm.weight = norm ? norm->weight : NULL;
    job->norm.bias = norm ? norm->bias : NULL;
    job->norm.dim = x.cols;
    job->norm.eps = VIT__CONFIG(s->model)->norm_eps;
    job->form = VIT__FORM_F32;
    job->num_tasks = vit__min(x.rows, vit__threads(&s->params));
}

static void vit__row(const vit__rows *job, int row) {
    const vit__kernels *kernels = vit__kernels_of(job->session);
    const int dim = job->y.cols;
    float *y = job->y.data + (size_t)row * job->y.ld;
    const float *x = job->x + (size_t)row * job->ldx;
    int i;
    if (job->gate) kernels->gate(VIT__ACTIVATION(job->gate), y, dim);
    for (i = 0; i < dim && job->norm.weight; i += job->norm.dim)
        kernels->norm(y + i, x + i, &job->norm);
    if (!job->norm.weight && x != y) memcpy(y, x, (size_t)dim * sizeof(float));
    kernels->convert(job->form, y, dim);
}

static void vit__rows_task(void *arg, int index) {
    const vit__rows *job = (const vit__rows *)arg;
    int row, end = vit__share(job->y.rows, index, job->num_tasks, &row);
    for (; row < end; row++) vit__row(job, row);
}

static void vit__rows_now(vit__rows *job) {
    if (job->x == job->y.data && !job->gate && !job->norm.weight &&
        job->form == VIT__FORM_F32)
        return;
    vit__phase(job->session, VIT_PHASE_NORM);
    vit__parallel_for(job->session, job->num_tasks, vit__rows_task, job);
}

/* Runs the job. A trace sees the rows in f32, after their gate, which closes the gaps between them,
   and under `name` after their norm. Completed steps are removed from the job. */
VIT__CALL vit__mat vit__rows_run(const vit__pass *p, vit__rows *job, const char *name) {
    const int traced = vit__is_traced(job->session);
    vit__rows step = *job;
    int r;
    step.form = VIT__FORM_F32;
    if (traced && job->gate) {
        step.norm.weight = NULL;
        vit__rows_now(&step);
        job->gate = VIT__NO_ACT;
        job->y.ld = (size_t)job->y.cols;
        for (r = 1; r < job->y.rows; r++)
            memcpy(job->y.data + (size_t)r * job->y.ld, step.y.data + (size_t)r * step.y.ld,
                   job->y.ld * sizeof(float));
        vit__show_rows(p, ".mlp.act", job->y);
        job->ldx = job->y.ld;
    }
    if (traced && name && job->norm.weight) {
        step = *job;
        step.form = VIT__FORM_F32;
        vit__rows_now(&step);
        vit__show_rows(p, name, job->y);
        job->x = job->y.data;
        job->ldx = job->y.ld;
        job->norm.weight = NULL;
    }
    vit__rows_now(job);
    return job->y;
}

/* norm(x) in the form that the layer reads, or in f32 if layer is NULL. The result is at `to`,
   without gaps or in place. A trace sees it under `name`, unless that is NULL. */
static vit__mat vit__norm(const vit__pass *p, const vit__affine *norm, vit__mat x, float *to,
                          const vit__layer *layer, const char *name) {
    vit__rows job;
    vit__rows_init(&job, p->session, norm, x, to);
    if (layer) job.form = vit__form_of(p->session, layer);
    return vit__rows_run(p, &job, name);
}

/* ------------------------------------------------------------------------- */
/* >>stem                                                                    */
/* ------------------------------------------------------------------------- */

/* The stem turns the input into a feature map, from which patches are cut: ResNetV2's stages or
   MobileCLIP-B's convolutions. Most models have no stem. */

/* Pixels by channels; element [y, x, k] is at data[(y * width + x) * step + k * plane]. An input
   has one plane after the other. A stem's results have their channels side by side, so that a pixel
   is a row for a linear layer. */
typedef struct vit__features {
    const float *data;
    int height, width, chans;
    size_t step, plane;
} vit__features;

static vit__features vit__chans_last(const float *data, int height, int width, int chans) {
    vit__features map;
    map.data = data;
    map.height = height;
    map.width = width;
    map.chans = chans;
    map.step = (size_t)chans;
    map.plane = 1;
    return map;
}

/* A square window that slides over a map, and the pixels it produces. */
typedef struct vit__window {
    const vit_session *session;
    vit__features from;
    int kernel, stride;
    int is_pool;          /* 1: the result is the maximum under the window */
    int top, left;        /* padding before the first pixel */
    int height, width;    /* size of the result */
    float *to;            /* a row for each pixel: the window's elements or their maximum */
    int first, rows;      /* pixels of this call */
    vit__form form;       /* form of the result rows */
    int num_tasks;
} vit__window;

/* Pads as a ResNet stem does, by TensorFlow's SAME: the smaller half comes before the first pixel,
   and sizes are rounded up. Without padding, sizes are rounded down. */
static vit__window vit__slide(const vit_session *s, vit__features from, int kernel, int stride,
                              int same, float *to) {
    vit__window w;
    memset(&w, 0, sizeof w);
    w.session = s;
    w.from = from;
    w.kernel = kernel;
    w.stride = stride;
    w.height = same ? vit__ceil_div(from.height, stride) : from.height / stride;
    w.width = same ? vit__ceil_div(from.width, stride) : from.width / stride;
    if (same) {
        w.top = vit__max(0, (w.height - 1) * stride + kernel - from.height) / 2;
        w.left = vit__max(0, (w.width - 1) * stride + kernel - from.width) / 2;
    }
    w.to = to;
    return w;
}

/* Tap number `tap` of the window at a pixel; NULL in the padding. */
static const float *vit__tap(const vit__window *w, int pixel, int tap) {
    const int y = pixel / w->width * w->stride - w->top + tap / w->kernel;
    const int x = pixel % w->width * w->stride - w->left + tap % w->kernel;
    if (y < 0 || y >= w->from.height || x < 0 || x >= w->from.width) return NULL;
    return w->from.data + ((size_t)y * (size_t)w->from.width + (size_t)x) * w->from.step;
}

/* im2col: rows [chans, kernel, kernel], the order of a convolution's weight. With is_pool, the
   largest element of each channel under the window; at least one tap exists, since padding is
   smaller than the window. */
static void vit__window_task(void *arg, int index) {
    const vit__window *w = (const vit__window *)arg;
    const int taps = w->kernel * w->kernel, chans = w->from.chans;
    const int depth = w->is_pool ? chans : chans * taps;
    int row, tap, k, end = vit__share(w->rows, index, w->num_tasks, &row);
    for (; row < end; row++) {
        float *to = w->to + (size_t)row * (size_t)depth;
        int found = 0;
        for (tap = 0; tap < taps; tap++) {
            const float *from = vit__tap(w, w->first + row, tap);
            if (!w->is_pool) {
                for (k = 0; k < chans; k++)
                    to[k * taps + tap] = from ? from[(size_t)k * w->from.plane] : 0.0f;
            } else if (from) {
                for (k = 0; k < chans; k++) to[k] = found ? vit__larger(from[k], to[k]) : from[k];
                found = 1;
            }
        }
        vit__kernels_of(w->session)->convert(w->form, to, depth);
    }
}

static void vit__window_run(vit__window *w, int first, int rows) {
    w->first = first;
    w->rows = rows;
    w->num_tasks = vit__min(rows, vit__threads(&w->session->params));
    vit__parallel_for(w->session, w->num_tasks, vit__window_task, w);
}

/* Buffers of the stem, for one image. */
typedef struct vit__stem_room {
    float *map[3];
    float *rows; /* im2col rows */
    float *norm; /* [VIT__NORM_ROWS, chans] */
} vit__stem_room;

enum { VIT__NORM_ROWS = 5 };

/* Rows of im2col in one step; a whole map would be large. */
static int vit__im2col_rows(int depth) {
    return depth < 1 << 15 ? (1 << 19) / depth : 16;
}

/* Floats of the largest im2col: that of the first convolution or of a 3 x 3 one. */
static uint64_t vit__im2col_floats(const vit_config *c) {
    const uint64_t first = (uint64_t)(unsigned)c->in_chans * 49;
    const uint64_t depth = vit__max64(first, (uint64_t)(unsigned)vit__map_chans(c) * 9);
    const uint64_t pixels = (uint64_t)(unsigned)vit__ceil_div(c->img_height, 2) *
                            (uint64_t)(unsigned)vit__ceil_div(c->img_width, 2);
    const uint64_t part = vit__max64(1 << 19, 16 * depth);
    return pixels * depth < part ? pixels * depth : part;
}

static void vit__place_stem(const vit_config *c, vit__arena *arena, vit__stem_room *room) {
    int i;
    if (!c->stem) return;
    for (i = 0; i < 3; i++) room->map[i] = vit__take(arena, (uint64_t)vit__largest_map(c));
    room->rows = vit__take(arena, vit__im2col_floats(c));
    room->norm = vit__take(arena, VIT__NORM_ROWS * (uint64_t)(unsigned)vit__map_chans(c));
}

/* A convolution, then its activation or its norm. */
typedef struct vit__conv {
    const vit__layer *conv;
    int kernel, stride;
    int act;               /* as in vit__output                                  */
    const vit__affine *norm; /* group norm; NULL for none                        */
    const float *shortcut; /* added after the norm; NULL for none                */
    int relu;              /* 1: then ReLU                                       */
} vit__conv;

/* relu(norm(conv(x))) */
static vit__conv vit__normed(const vit__layer *conv, int kernel, int stride,
                             const vit__affine *norm) {
    const vit__conv step = { conv, kernel, stride, VIT__NO_ACT, norm, NULL, 1 };
    return step;
}

enum { VIT__GROUPS = 32 };

/* torch.nn.GroupNorm(32, chans, eps=1e-5) in place, then an optional shortcut and an optional ReLU.
   A task has some of the groups, and sums each channel over all pixels in order. */
typedef struct vit__group_norm {
    const vit_session *session;
    const vit__conv *step;
    float *x; /* [pixels, chans] */
    int pixels, chans;
    float *room; /* [VIT__NORM_ROWS, chans] */
    int num_tasks;
} vit__group_norm;

/* Sets mean[k], for n channels from `first` on, to the mean of x, or of (x + offset)^2, over all
   pixels and over the channels of k's group. Pixels are summed in parts of 64; part [2, chans] is
   scratch for the sums of a part and for x + offset. */
static void vit__group_means(const vit__group_norm *job, int first, int n, const float *offset,
                             float *mean, float *part) {
    const vit__kernels *kernels = vit__kernels_of(job->session);
    const float *x = job->x + first;
    const size_t bytes = (size_t)n * sizeof(float);
    const int width = job->chans / VIT__GROUPS;
    float *spare = part + job->chans;
    int p, k, end;
    memset(mean, 0, bytes);
    memset(part, 0, bytes);
    for (p = 1; p <= job->pixels; p++, x += job->chans) {
        if (offset) kernels->add(spare, offset, x, NULL, n);
        if (offset) kernels->add(part, part, spare, spare, n);
        else kernels->add(part, part, x, NULL, n);
        if (p % 64 != 0 && p != job->pixels) continue;
        kernels->add(mean, mean, part, NULL, n);
        memset(part, 0, bytes);
    }
    for (end = width; end <= n; end += width) {
        float total = 0.0f;
        for (k = end - width; k < end; k++) total += mean[k];
        total /= (float)job->pixels * (float)width;
        for (k = end - width; k < end; k++) mean[k] = total;
    }
}

static void vit__group_norm_task(void *arg, int index) {
    const vit__group_norm *job = (const vit__group_norm *)arg;
    const vit__kernels *kernels = vit__kernels_of(job->session);
    const vit__conv *step = job->step;
    const int width = job->chans / VIT__GROUPS;
    int group, end = vit__share(VIT__GROUPS, index, job->num_tasks, &group);
    const int first = group * width, n = (end - group) * width;
    const size_t chans = (size_t)job->chans;
    float *mean = job->room + first, *scale = mean + chans, *shift = scale + chans;
    float *part = shift + chans;
    int p, k;
    vit__group_means(job, first, n, NULL, mean, part);
    for (k = 0; k < n; k++) mean[k] = -mean[k];
    vit__group_means(job, first, n, mean, scale, part);
    for (k = 0; k < n; k++) {
        const float weight = vit__stored(step->norm->weight + first + k);
        scale[k] = weight / vit__sqrt(scale[k] + 1e-5f);
        shift[k] = vit__stored(step->norm->bias + first + k);
    }
    kernels->add(shift, shift, mean, scale, n);
    for (p = 0; p < job->pixels; p++) {
        const size_t at = (size_t)p * chans + (size_t)first;
        float *x = job->x + at;
        kernels->add(x, shift, x, scale, n);
        if (step->shortcut) kernels->add(x, x, step->shortcut + at, NULL, n);
        for (k = 0; k < n && step->relu; k++) x[k] = x[k] < 0.0f ? 0.0f : x[k];
    }
}

/* Runs a convolution and the steps that follow it: a map at `to`, which a trace sees under `name`.
   It is a linear layer over im2col rows, a part of them at a time. If the window is one pixel, its
   rows are in memory already. */
static vit__features vit__conv_run(const vit__pass *pass, const vit__stem_room *room,
                                   const vit__conv *step, vit__features from, float *to,
                                   const char *name) {
    const vit_session *s = pass->session;
    const vit__layer *conv = step->conv;
    const int same = VIT__CONFIG(s->model)->stem == VIT_STEM_RESNET;
    vit__window w = vit__slide(s, from, step->kernel, step->stride, same, room->rows);
    const int pixels = w.height * w.width;
    const int in_place = step->kernel == 1 && step->stride == 1 &&
                         vit__form_of(s, conv) == VIT__FORM_F32;
    const int part = in_place ? pixels : vit__im2col_rows(conv->depth);
    const size_t depth = (size_t)conv->depth, chans = (size_t)conv->cols;
    int first;
    w.form = vit__form_of(s, conv);
    for (first = 0; first < pixels; first += part) {
        const int rows = vit__min(part, pixels - first);
        vit__linear l;
        if (!in_place) vit__window_run(&w, first, rows);
        vit__layer_init(&l, s, conv, vit__matrix(room->rows, depth, rows, conv->depth),
                        vit__matrix(to + (size_t)first * chans, chans, rows, conv->cols));
        if (in_place) l.a = from.data;
        l.out.act = step->act;
        vit__linear_run(s, &l);
    }
    if (step->norm) {
        vit__group_norm job;
        job.session = s;
        job.step = step;
        job.x = to;
        job.pixels = pixels;
        job.chans = conv->cols;
        job.room = room->norm;
        job.num_tasks = vit__min(VIT__GROUPS, vit__threads(&s->params));
        vit__parallel_for(s, job.num_tasks, vit__group_norm_task, &job);
    }
    vit__show(pass, name, to, w.height, w.width, conv->cols);
    return vit__chans_last(to, w.height, w.width, conv->cols);
}

/* relu(conv3(conv2(conv1(x))) + x), each convolution with its norm; in block 0, the second x goes
   through a convolution of its own. x is in map[0], which receives the result. */
static vit__features vit__bottleneck(const vit__pass *p, vit__stem_room *room, vit__features x) {
    const vit_model *m = p->session->model;
    const vit_config *c = VIT__CONFIG(m);
    const int is_first = p->block == 0, stride = p->stage && is_first ? 2 : 1;
    const int index = vit__unit_index(c, p->stage, p->block);
    const int down = is_first ? vit__count(c, vit__down_presence, VIT__NUM_DOWN) : 0;
    float *shortcut = room->map[0], *to = room->map[1];
    vit__unit_layers w;
    vit__conv step;
    vit__features map;
    vit__find_layers(m, index + down, vit__unit_presence, VIT__NUM_UNIT, &w);
    step = vit__normed(&w.conv1, 1, 1, &w.norm1);
    map = vit__conv_run(p, room, &step, x, to, ".norm1");
    step = vit__normed(&w.conv2, 3, stride, &w.norm2);
    map = vit__conv_run(p, room, &step, map, room->map[2], ".norm2");
    if (is_first) {
        vit__down_layers d;
        vit__find_layers(m, index, vit__down_presence, VIT__NUM_DOWN, &d);
        shortcut = room->map[1];
        to = room->map[0];
        step = vit__normed(&d.conv, 1, stride, &d.norm);
        step.relu = 0;
        vit__conv_run(p, room, &step, x, shortcut, ".downsample");
    }
    step = vit__normed(&w.conv3, 1, 1, &w.norm3);
    step.shortcut = shortcut;
    map = vit__conv_run(p, room, &step, map, to, "");
    room->map[0] = to;
    room->map[1] = shortcut;
    return map;
}

/* The stem of ResNetV2: a convolution, a maximum over windows, stages of bottlenecks. */
static vit__features vit__resnet(const vit__pass *pass, vit__stem_room *room,
                                 const vit__front_layers *w, vit__features input) {
    const vit__conv root = vit__normed(&w->root, 7, 2, &w->root_norm);
    vit__pass p = *pass;
    vit__features map;
    vit__window pool;
    map = vit__conv_run(&p, room, &root, input, room->map[1], "patch_embed.backbone.stem.norm");
    pool = vit__slide(p.session, map, 3, 2, 1, room->map[0]);
    pool.is_pool = 1;
    vit__window_run(&pool, 0, pool.height * pool.width);
    map = vit__chans_last(pool.to, pool.height, pool.width, map.chans);
    vit__show(&p, "patch_embed.backbone.stem", map.data, map.height, map.width, map.chans);
    for (p.stage = 0; p.stage < VIT__NUM_STAGES; p.stage++)
        for (p.block = 0; p.block < vit__stage_depth(VIT__CONFIG(p.session->model), p.stage);
             p.block++)
            map = vit__bottleneck(&p, room, map);
    return map;
}

/* The stem of MobileCLIP-B: two convolutions. */
static vit__features vit__conv_stem(const vit__pass *p, vit__stem_room *room,
                                    const vit__front_layers *w, vit__features map) {
    const vit__conv conv0 = { &w->conv0, 4, 4, VIT__ACT(VIT_GELU), NULL, NULL, 0 };
    const vit__conv conv1 = { &w->conv1, 2, 2, VIT__ACT(VIT_GELU), NULL, NULL, 0 };
    map = vit__conv_run(p, room, &conv0, map, room->map[0], "patch_embed.backbone.0");
    return vit__conv_run(p, room, &conv1, map, room->map[1], "patch_embed.backbone.1");
}

/* ------------------------------------------------------------------------- */
/* >>embed                                                                   */
/* ------------------------------------------------------------------------- */

/* Patch embedding: the input's patches as rows, a linear layer, prefix tokens in front,
   positions added. */

/* Memory for the patches that are embedded together, as rows [in_chans * P * P], and the stem's
   buffers. These are the patches of a batch, or with low_memory a few; a stem computes all at
   once. */
static vit__mat vit__place_patches(const vit_session *s, int batch, vit__arena *arena,
                                   vit__stem_room *stem) {
    const vit_config *c = VIT__CONFIG(s->model);
    const int all = batch * c->num_patches, depth = (int)vit__patch_depth(c);
    const int rows = c->stem ? all : vit__min(s->chunk, all);
    float *data = vit__take(arena, (uint64_t)(unsigned)rows * (uint64_t)(unsigned)depth);
    vit__place_stem(c, arena, stem);
    return vit__matrix(data, (size_t)depth, rows, depth);
}

/* Takes one image after the other, which keeps the maps in the cache: the rows of its patches, in
   vit__gather_patch's order. */
static void vit__stem_rows(const vit__pass *batch, const vit__front_layers *w,
                           vit__stem_room *stem, const float *input, vit__mat rows) {
    const vit_session *s = batch->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const size_t pixels = (size_t)c->img_height * (size_t)c->img_width;
    vit__pass p = *batch;
    int i;
    p.batch = 1;
    for (i = 0; i < batch->batch; i++) {
        vit__features map = vit__chans_last(input, c->img_height, c->img_width, c->in_chans);
        vit__window window;
        map.step = 1;
        map.plane = pixels;
        map = c->stem == VIT_STEM_RESNET ? vit__resnet(&p, stem, w, map)
                                         : vit__conv_stem(&p, stem, w, map);
        window = vit__slide(s, map, vit__map_patch(c), vit__map_patch(c), 0, rows.data);
        window.form = vit__form_of(s, &w->patch);
        vit__window_run(&window, 0, c->num_patches);
        input += pixels * (size_t)c->in_chans;
        rows.data += (size_t)c->num_patches * rows.ld;
    }
}

/* Copies square number `square` of one channel. Pixels beyond the image are zeros. */
VIT__INLINE void vit__gather_square(const vit_config *c, const float *plane, int square,
                                    float *row) {
    const size_t p = (size_t)c->patch_size, width = (size_t)c->img_width;
    const int stride = c->patch_stride ? c->patch_stride : c->patch_size;
    const int top = square / c->grid_width * stride;
    const int left = square % c->grid_width * stride;
    const size_t rows = (size_t)vit__min(c->patch_size, c->img_height - top);
    const size_t columns = (size_t)vit__min(c->patch_size, c->img_width - left);
    const float *from = plane + (size_t)top * width + (size_t)left;
    size_t y;
    if (rows < p || columns < p) memset(row, 0, p * p * sizeof(float));
    for (y = 0; y < rows; y++) memcpy(row + y * p, from + y * width, columns * sizeof(float));
}

/* im2col: patch number `index` of the batch as one row [in_chans, P, P], the
   order of a convolution's weight. */
static void vit__gather_patch(const vit_config *c, const float *input, int index, float *row) {
    const size_t area = (size_t)c->patch_size * (size_t)c->patch_size;
    const size_t plane = (size_t)c->img_width * (size_t)c->img_height;
    const int p = c->patch_size, patch = index % c->num_patches;
    const float *image = input + (size_t)(index / c->num_patches) * (size_t)c->in_chans * plane;
    int channel, y, x;
    for (channel = 0; channel < c->in_chans; channel++, row += area) {
        const float *from = image + (size_t)channel * plane;
        const int nth = patch * c->in_chans + channel; /* number among one-channel patches */
        switch ((vit_patch_cut)c->patch_cut) {
        case VIT_CUT_SQUARES: vit__gather_square(c, from, patch, row); break;
        case VIT_CUT_INTERLEAVED: /* a patch's pixels are a grid's side apart */
            for (y = 0; y < p; y++) {
                const size_t top = (size_t)(y * c->grid_height + patch / c->grid_width);
                const float *at = from + top * (size_t)c->img_width + patch % c->grid_width;
                for (x = 0; x < p; x++) row[y * p + x] = at[x * c->grid_width];
            }
            break;
        case VIT_CUT_RESHAPE:
            memcpy(row, image + (size_t)nth * area, area * sizeof(float));
            break;
        case VIT_CUT_UNFOLD:
            from = image + (size_t)(nth / c->num_patches) * plane;
            vit__gather_square(c, from, nth % c->num_patches, row);
            break;
        case VIT_NUM_CUTS: break;
        }
    }
}

/* Some patches of the batch as rows, from number `first` on: conv2d is then a linear layer. */
typedef struct vit__im2col {
    vit__rows then;       /* steps for each row while it is in the cache */
    const float *input;   /* [batch, in_chans, img_height, img_width] */
    int first;
} vit__im2col;

static void vit__im2col_task(void *arg, int index) {
    const vit__im2col *job = (const vit__im2col *)arg;
    const vit__mat to = job->then.y;
    int row, end = vit__share(to.rows, index, job->then.num_tasks, &row);
    for (; row < end; row++) {
        vit__gather_patch(VIT__CONFIG(job->then.session->model), job->input, job->first + row,
                          to.data + (size_t)row * to.ld);
        vit__row(&job->then, row);
    }
}

/* Writes tokens plus their positions, if there are any; tokens may be x. */
static void vit__put_tokens(const vit_session *s, float *x, const float *from, const float *pos,
                            int count) {
    if (pos) vit__add_stored(vit__kernels_of(s), x, from, pos, NULL, count);
    else if (x != from) memcpy(x, from, (size_t)count * sizeof(float));
}

/* Token i of a text encoder's input. */
static int vit__id(const vit__pass *p, int i) { return p->ids ? p->ids[i] : (int)p->pixels[i]; }

/* Writes rows of token_embed: those of the batch's ids. */
static void vit__gather_ids(const vit__pass *p, const vit__layer *table, vit__mat to) {
    const size_t panel = (size_t)vit__panel_bytes(table->dtype, to.cols);
    int r, k;
    for (r = 0; r < to.rows; r++) {
        const int id = vit__id(p, r);
        const unsigned char *from = (const unsigned char *)(const void *)table->weight;
        from += (size_t)(id / 16) * panel;
        for (k = 0; k < to.cols; k++)
            to.data[(size_t)r * to.ld + (size_t)k] =
                vit__unpack_number(table->dtype, from, id, k, to.cols);
    }
}

/* patches = patch_embed.proj(rows of pixels), a part of the rows at a time. */
static void vit__embed_pixels(const vit__pass *p, const vit__front_layers *w, const float *input,
                              vit__mat patches) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const int shown = vit__is_traced(s) && c->has_patch_pre_norm; /* the norm is a separate step */
    vit__arena scratch = { s->scratch, 0 };
    vit__stem_room stem;
    vit__mat rows = vit__place_patches(s, p->batch, &scratch, &stem);
    const int step = rows.rows;
    int i;
    for (i = 0; i < patches.rows; i += step) {
        rows.rows = vit__min(step, patches.rows - i);
        if (c->stem) {
            vit__stem_rows(p, w, &stem, input, rows);
        } else {
            vit__im2col job;
            vit__rows_init(&job.then, s, shown ? NULL : &w->patch_pre_norm, rows, rows.data);
            job.input = input;
            job.first = i;
            if (!shown) job.then.form = vit__form_of(s, &w->patch);
            vit__parallel_for(s, job.then.num_tasks, vit__im2col_task, &job);
            if (shown)
                vit__norm(p, &w->patch_pre_norm, rows, rows.data, &w->patch,
                          "patch_embed.pre_norm");
        }
        vit__layer_run(p, &w->patch, rows, patches.data + (size_t)i * patches.ld, VIT__NO_ACT,
                       NULL);
    }
}

/* The input to x [batch * N, D]. With one image, patches are written straight to their place in x;
   a batch goes through y. */
static vit__mat vit__patch_embed(const vit__pass *p, const float *input) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const int dim = c->embed_dim;
    const vit__mat x = vit__matrix(s->x, (size_t)dim, p->batch * c->num_tokens, dim);
    float *to = p->batch > 1 ? s->y : s->x + c->num_prefix_tokens * dim, *at = s->x;
    const vit__mat patches = vit__matrix(to, (size_t)dim, p->batch * c->num_patches, dim);
    vit__front_layers w;
    int i, t;

    vit__find_front(s->model, &w);
    vit__phase(s, VIT_PHASE_PATCH_EMBED);
    if (vit__is_text(c)) vit__gather_ids(p, &w.token_embed, patches);
    else vit__embed_pixels(p, &w, input, patches);
    if (c->has_patch_norm) vit__norm(p, &w.patch_norm, patches, patches.data, NULL, NULL);
    vit__show_rows(p, "patch_embed", patches);

    for (i = 0; i < p->batch; i++) {
        /* x = [cls_token, dist_token, reg_token, patches] + pos_embed */
        const float *all = s->pos;                                   /* of all, then of patches */
        const float *pos = c->positions == VIT_POS_ALL ? all : NULL; /* this token's position */
        for (t = 0; t < c->num_prefix_tokens; t++, at += dim) {
            const int r = t - c->has_cls_token - c->has_dist_token;
            const float *token = r >= 0   ? w.reg_token + r * dim
                                 : t == 0 ? w.cls_token
                                          : w.dist_token;
            vit__copy_stored(at, token, (size_t)dim);
            vit__put_tokens(s, at, at, pos, dim);
            if (pos) all = pos += dim;
        }
        vit__put_tokens(s, at, to, all, c->num_patches * dim);
        to += c->num_patches * dim;
        at += c->num_patches * dim;
    }
    vit__show_rows(p, "pos_embed", x);
    if (c->has_pre_norm) vit__norm(p, &w.norm_pre, x, x.data, NULL, "norm_pre");
    return x;
}

/* ------------------------------------------------------------------------- */
/* >>attention                                                               */
/* ------------------------------------------------------------------------- */

/* softmax(scale q k^T) v, head by head. For each head, k and v are packed as the panels of two
   small linear layers. Then a few query rows at a time go through scores, softmax and values while
   everything stays in the L2 cache. The [N, N] matrix is written out only if the caller requests
   it.

   After a layer in int8 or int4, both products are of integers ("attention in integers" in
   >>body). They have 16 bits in tiers that multiply these fast (VIT__I16); other tiers compute
   the same sums in f32. */

/* One attention over a batch, of a block or of map pooling. */
typedef struct vit__attention {
    const vit_session *session;
    int heads, dim;       /* H, head_dim                                          */
    float scale;          /* factor on q k^T                                      */
    const float *rel_pos; /* [H, relative positions] or NULL                      */
    const float *lambda;  /* differential attention's factor, or NULL             */
    vit_dtype dtype;      /* type of both products: f32, bf16 where inputs are rounded, VIT__I16 */
    int quantised;        /* 1: both products are of integers, in VIT__I16 or f32 */

    const float *q;       /* [batch, N, H, head_dim]; only `queries` tokens are read */
    int is_pooling;       /* 1: map pooling, whose q is one row of the file       */
    int causal;           /* 1: a token attends to itself and those before it     */
    const float *k, *v;   /* [batch, N, H, head_dim]; only `keys` tokens are read */
    int keys;             /* attended tokens of each image                        */
    size_t ldq, ldk;      /* floats between tokens of q; of k and v               */
    float *context;       /* [batch, queries, H, head_dim]                        */
    const uint8_t *mask;  /* [batch, N] or NULL                                   */
    float *maps;          /* [batch, H, N, N] or NULL                             */
    int batch, first, queries; /* query tokens [first, first + queries) of each image */
    int num_tasks;
} vit__attention;

/* Sets all members except q, k, v and context. The types of the products follow from the layer that
   makes k and v. */
static void vit__attention_init(vit__attention *job, const vit__pass *p, int heads,
                                const vit__layer *layer) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const vit_dtype weights = layer->dtype;
    memset(job, 0, sizeof *job);
    job->session = s;
    job->heads = heads;
    job->dim = c->num_heads * c->head_dim / heads;
    job->scale = c->attn_scale;
    job->causal = c->attention == VIT_ATTENTION_CAUSAL;
    job->quantised = VIT__IN_INTEGERS &&
                     (!VIT__IN_FLOATS || weights == VIT_I8 || weights == VIT_I4);
    job->dtype = weights == VIT_BF16 ? VIT_BF16 : VIT_F32;
    if (job->quantised && vit__kernels_of(s)->gemm[VIT__HAS_I16 * VIT__I16].run)
        job->dtype = VIT__I16;
    job->dtype = vit__known_product(job->dtype);
    job->keys = c->num_tokens;
    job->mask = p->mask;
    job->maps = p->maps;
    job->batch = p->batch;
    job->queries = p->queries;
    job->num_tasks = vit__threads(&s->params);
}

static int vit__is_differential(const vit__attention *job) {
    return VIT__FIXED_OR(has_diff_attn, 1) && job->lambda != NULL;
}

static int vit__is_causal(const vit__attention *job) {
    return VIT__FIXED_OR(attention, VIT_ATTENTION_CAUSAL) == VIT_ATTENTION_CAUSAL && job->causal;
}

static int vit__is_pooling(const vit__attention *job) {
    return VIT__FIXED_OR(pool, VIT_POOL_MAP) == VIT_POOL_MAP && job->is_pooling;
}

/* Working memory of a task for one head of one image. */
typedef struct vit__attn_head {
    vit__linear scores; /* q k^T */
    vit__linear values; /* softmax(...) v */
    float *context;     /* destination of token job->first */
    vit__form form;     /* form of q and of the softmax */
    vit__packing packing;
    float *tile;        /* scores of a tile of rows; with low_memory first the rows of x */
    float *second;      /* scores of the second half of q */
    float *q_tile;      /* a tile of q in its form */
    float *slices[2];   /* with low_memory, a tile of k or q and a tile of v */
    const float *rel_pos; /* biases of this head, or NULL */
    const uint8_t *mask;  /* [keys] of this image, or NULL */
    float *maps;        /* [N, N] or NULL */
    float whole;        /* factor that makes the largest step of the values VIT__WHOLE */
} vit__attn_head;

/* Columns to compute for q, k or v of one head in whole panels. A head may begin inside a panel, at
   a multiple of the largest power of two in head_dim. */
static int vit__slice_width(const vit_config *c) {
    return vit__round_up(c->head_dim + 16 - vit__min(c->head_dim & -c->head_dim, 16), 16);
}

/* The kernel of that name, if the build has it. */
VIT__INLINE float vit__quantise(const vit__kernels *kernels, vit__form form, float *row,
                                const float *steps, int n, float factor) {
#if VIT__HAS_I16
    return kernels->quantise(form, row, steps, n, factor);
#else
    (void)kernels, (void)form, (void)row, (void)steps, (void)n, (void)factor;
    return 0.0f;
#endif
}

/* Measures or takes the memory of a task: panels of k and v, and a tile of rows. With low_memory,
   q, k and v are computed head by head, just before use. */
static void vit__place_head(const vit__attention *job, vit__arena *arena, vit__attn_head *head) {
    const vit_config *c = VIT__CONFIG(job->session->model);
    const vit__kernels *kernels = vit__kernels_of(job->session);
    const vit_dtype product = vit__known_product(job->dtype);
    const int by_head = vit__is_low(&job->session->params) && !vit__is_pooling(job);
    const size_t rows = (size_t)kernels->gemm[product].tile_rows;
    const size_t slice = rows * (size_t)vit__slice_width(c);
    const size_t tokens = (size_t)vit__round_up(job->keys, 16);
    const size_t scores = vit__is_differential(job) ? 2 * tokens : tokens;
    const size_t row = scores + (size_t)vit__round_up(job->dim, 16);
    vit__layer keys = { NULL, NULL, product, 0, job->keys, job->dim };
    vit__layer values = { NULL, NULL, product, 0, job->dim, job->keys };
    memset(head, 0, sizeof *head);
    vit__linear_init(&head->scores, kernels, &keys);
    vit__linear_init(&head->values, kernels, &values);
    /* Each has at most 2^28 floats: 65536 tokens times 4096 elements. */
    head->packing.keys = (uint32_t *)(void *)vit__take(
        arena, (size_t)head->scores.end_panel * head->scores.stride / sizeof(float));
    head->packing.values = (uint32_t *)(void *)vit__take(
        arena, (size_t)head->values.end_panel * head->values.stride / sizeof(float));
    if (VIT__HAS_U8 && job->quantised) {
        head->packing.key_steps = vit__take(arena, tokens);
        head->packing.value_steps = vit__take(arena, tokens);
    }
    if (by_head) {
        head->tile = vit__take(arena, rows * vit__max_size(row, (size_t)c->embed_dim));
        head->slices[0] = vit__take(arena, slice);
        head->slices[1] = vit__take(arena, slice);
    } else {
        head->tile = vit__take(arena, rows * row);
    }
    if (!arena->base) return;
    if (VIT__SIMD && VIT__HAS_U8 && job->quantised) /* softmax reads 16 at a time */
        memset(head->packing.key_steps + job->keys, 0,
               (tokens - (size_t)job->keys) * sizeof(float));
    head->second = head->tile + rows * (scores - tokens);
    head->q_tile = head->second + rows * tokens;
    head->form = head->scores.gemm->form;
    head->scores.panels = (const unsigned char *)head->packing.keys;
    head->scores.out.c = head->tile;
    head->scores.out.ldc = tokens;
    head->scores.cols = vit__round_up(job->keys, 16); /* a row holds whole panels */
    head->values.panels = (const unsigned char *)head->packing.values;
    head->values.a = head->tile;
    head->values.lda = tokens * sizeof(float);
}

VIT__CALL uint64_t vit__head_floats(const vit__attention *job) {
    vit__arena arena = { NULL, 0 };
    vit__attn_head head;
    vit__place_head(job, &arena, &head);
    return arena.used;
}

/* Sets up head `number` of the batch for task `task`, without packing its keys and values. */
static void vit__attention_begin(const vit__attention *job, int number, int task,
                                 vit__attn_head *head) {
    const vit_session *s = job->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const int image = number / job->heads, h = number % job->heads, n = job->keys;
    const size_t width = (size_t)job->heads * (size_t)job->dim;
    vit__arena arena = { s->attn + (size_t)task * s->attn_stride, 0 };
    vit__place_head(job, &arena, head);
    head->packing.tokens = n;
    head->packing.dim = job->dim;
    head->context = job->context + (size_t)(image * job->queries) * width +
                    (size_t)h * (size_t)job->dim;
    head->values.out.ldc = width;
    if (VIT__FIXED_OR(has_rel_pos, 1) && job->rel_pos)
        head->rel_pos = job->rel_pos + h * vit__num_rel_pos(c);
    if (!VIT__LOGITS_ONLY && job->mask)
        head->mask = job->mask + (image + 1) * c->num_tokens - n; /* the last n */
    if (!VIT__LOGITS_ONLY && job->maps)
        head->maps = job->maps + (size_t)number * (size_t)n * (size_t)n;
}

/* The factor that quantises the softmax over the first n tokens. */
static float vit__whole_of(const vit__attn_head *head, int n) {
    int32_t largest = 0; /* as bits: no step is negative, and NaN is the largest */
    int i;
    for (i = 0; i < n; i++) {
        const int32_t step = vit__size_bits(head->packing.value_steps[i]);
        if (step > largest) largest = step;
    }
    return largest ? VIT__WHOLE / vit__float((uint32_t)largest) : 0.0f;
}

/* Finds the factor for all tokens, after the last value is packed. */
static void vit__attention_end_pack(const vit__attention *job, vit__attn_head *head) {
    if (vit__is_quantised(&head->packing)) head->whole = vit__whole_of(head, job->keys);
}

/* Adds the biases of one query token by relative position, row by row of the key patches. */
static void vit__add_rel_pos(const vit_config *c, const vit__kernels *kernels, const float *bias,
                             int token, float *row) {
    const int prefix = c->num_prefix_tokens, width = c->grid_width, across = 2 * width - 1;
    const int patch = token - prefix, y = patch / width, x = patch % width;
    const float *cls = bias + (2 * c->grid_height - 1) * across;
    int i;
    if (token < prefix) { /* the class token */
        for (i = 1; i < c->num_tokens; i++) row[i] += vit__stored(cls);
        row[0] += vit__stored(cls + 2);
        return;
    }
    if (prefix) row[0] += vit__stored(cls + 1);
    bias += (c->grid_height - 1 - y) * across + width - 1 - x;
    for (i = 0; i < c->grid_height; i++, bias += across) {
        float *at = row + prefix + i * width;
        vit__add_stored(kernels, at, at, bias, NULL, width);
    }
}

/* A tile of query rows of one head: q, from token `first` on. */
typedef struct vit__queries {
    const float *q;
    int first, rows;
} vit__queries;

/* The softmax's numerators of a tile, exp(scale q k^T - largest). The caller must multiply row r by
   factor[r], which divides it by its sum. Converts a copy of the tile if q has another form.
   Differential attention keeps half 0 or 1 of each row in the copy and zeroes the other. */
static void vit__attention_scores(const vit__attention *job, const vit__attn_head *head,
                                  vit__queries tile, int half, vit__linear *scores,
                                  float *factor) {
    const vit__kernels *kernels = vit__known_kernels(scores->kernels);
    const int quantised = vit__is_quantised(&head->packing);
    const int swapped = VIT__BIG_ENDIAN && vit__is_pooling(job);
    const float *steps = quantised ? head->packing.key_steps : NULL;
    const float *rel_pos = VIT__FIXED_OR(has_rel_pos, 1) ? head->rel_pos : NULL;
    const uint8_t *mask = VIT__LOGITS_ONLY ? NULL : head->mask;
    const size_t dim = (size_t)job->dim, bytes = dim * sizeof(float);
    float step[VIT__MAX_TILE_ROWS];
    int r, i;
    scores->a = tile.q;
    scores->lda = job->ldq * sizeof(float);
    if (head->form != VIT__FORM_F32 || quantised || vit__is_differential(job) || swapped) {
        scores->a = head->q_tile;
        scores->lda = bytes;
        for (r = 0; r < tile.rows; r++) {
            float *row = head->q_tile + (size_t)r * dim;
            if (swapped) vit__copy_stored(row, tile.q, dim);
            else memcpy(row, tile.q + (size_t)r * job->ldq, bytes);
            /* Zeros in one half of q leave the product of the other, so k is packed once for
               both. */
            if (vit__is_differential(job)) memset(row + (half ? 0 : dim / 2), 0, bytes / 2);
            if (quantised) step[r] = vit__quantise(kernels, head->form, row, NULL, job->dim, 0.0f);
            else kernels->convert(head->form, row, job->dim);
        }
    }
    vit__gemm(scores, 0, 1, 0, scores->end_panel);
    for (r = 0; r < tile.rows; r++) {
        float *row = scores->out.c + (size_t)r * scores->out.ldc;
        const float scale = quantised ? job->scale * step[r] : job->scale;
        const int n = vit__is_causal(job) ? tile.first + r + 1 : job->keys;
        if (!rel_pos && !mask) {
            factor[r] = kernels->softmax(row, steps, n, scale);
            if (n < job->keys) memset(row + n, 0, (size_t)(job->keys - n) * sizeof(float));
            continue;
        }
        for (i = 0; i < n && steps; i++) row[i] *= steps[i];
        kernels->scale(row, row, n, scale);
        if (rel_pos) /* never causal */
            vit__add_rel_pos(VIT__CONFIG(job->session->model), kernels, rel_pos, tile.first + r,
                             row);
        for (i = 0; i < n && mask; i++)
            if (!mask[i]) row[i] = VIT__LOWEST;
        factor[r] = kernels->softmax(row, NULL, n, 1.0f);
        if (n < job->keys) memset(row + n, 0, (size_t)(job->keys - n) * sizeof(float));
    }
}

/* Writes a tile of rows of context: softmax(scale q k^T) v, dividing last. Differential attention:
   softmax of the first half - lambda softmax of the second, times v. */
static void vit__attention_rows(const vit__attention *job, vit__attn_head *head,
                                vit__queries tile) {
    const vit__kernels *kernels = vit__known_kernels(head->scores.kernels);
    const int n = job->keys;
    vit__linear *const scores = &head->scores, *const values = &head->values;
    float factor[VIT__MAX_TILE_ROWS], bound = 1.0f; /* bound of a row's sum of magnitudes */
    int r;
    scores->rows = values->rows = tile.rows;
    scores->num_tiles = values->num_tiles = 1;
    values->out.c = head->context + (size_t)(tile.first - job->first) * values->out.ldc;
    vit__attention_scores(job, head, tile, 0, scores, factor);
    if (vit__is_differential(job)) {
        const float lambda = vit__stored(job->lambda);
        float other[VIT__MAX_TILE_ROWS];
        vit__linear second = *scores;
        second.out.c = head->second;
        vit__attention_scores(job, head, tile, 1, &second, other);
        for (r = 0; r < tile.rows; r++) {
            float *row = scores->out.c + (size_t)r * scores->out.ldc;
            float *minus = second.out.c + (size_t)r * scores->out.ldc;
            kernels->scale(row, row, n, factor[r]);
            kernels->scale(minus, minus, n, -lambda * other[r]);
            kernels->add(row, row, minus, NULL, n);
            factor[r] = VIT__SPREADS_NAN && vit__is_nan(factor[r] + other[r]) ? VIT__NAN : 1.0f;
        }
        bound += vit__float((uint32_t)vit__size_bits(lambda));
        if (VIT__SPREADS_NAN && !(bound < 1e6f)) bound = VIT__NAN; /* too large for its steps */
    }
    for (r = 0; r < tile.rows; r++) {
        float *row = scores->out.c + (size_t)r * scores->out.ldc;
        if (!VIT__LOGITS_ONLY && head->maps)
            kernels->scale(head->maps + (size_t)(tile.first + r) * (size_t)n, row, n, factor[r]);
        if (vit__is_quantised(&head->packing)) {
            const float unit = vit__is_causal(job) ? vit__whole_of(head, tile.first + r + 1)
                                                   : head->whole;
            const float whole = factor[r] / bound * unit;
            vit__quantise(kernels, head->form, row, head->packing.value_steps, n, whole);
            factor[r] = unit > 0.0f ? bound / unit : 0.0f;
            if (VIT__SPREADS_NAN && vit__is_nan(whole)) factor[r] = whole;
        } else {
            kernels->convert(head->form, row, n);
        }
    }
    vit__gemm(values, 0, 1, 0, values->end_panel);
    for (r = 0; r < tile.rows; r++) { /* context rows are shorter than score rows */
        float *row = values->out.c + (size_t)r * values->out.ldc;
        kernels->scale(row, row, job->dim, factor[r]);
    }
}

/* Tasks share the query rows of all heads of all images, so that three heads keep two threads
   equally busy. Each task that has rows of a head packs its panels. */
static void vit__attention_task(void *arg, int index) {
    const vit__attention *job = (const vit__attention *)arg;
    const vit__kernels *kernels = vit__kernels_of(job->session);
    const int tile_rows = kernels->gemm[job->dtype].tile_rows;
    const int tiles = vit__ceil_div(job->queries, tile_rows); /* tiles of each head */
    const size_t tokens = (size_t)VIT__CONFIG(job->session->model)->num_tokens;
    int current = -1, t;
    const int end = vit__share(job->batch * job->heads * tiles, index, job->num_tasks, &t);
    vit__attn_head head;
    memset(&head, 0, sizeof head);
    for (; t < end; t++) {
        const size_t image = (size_t)(t / tiles / job->heads);
        const size_t column = (size_t)(t / tiles % job->heads) * (size_t)job->dim;
        vit__queries tile;
        int last = vit__share(job->queries, t % tiles, tiles, &tile.first);
        tile.q = job->q + (image * tokens + (size_t)tile.first) * job->ldq + column;
        tile.rows = last - tile.first;
        if (t / tiles != current) {
            vit__unpacked from = { NULL, NULL, 0, 0, 0 };
            current = t / tiles;
            vit__attention_begin(job, current, index, &head);
            from.k = job->k + image * tokens * job->ldk + column;
            from.v = job->v + image * tokens * job->ldk + column;
            from.ld = job->ldk;
            from.count = job->keys;
            kernels->pack_head(job->dtype, &head.packing, &from);
            vit__attention_end_pack(job, &head);
        }
        vit__attention_rows(job, &head, tile);
    }
}

/* softmax(scale q k^T) v of a block at `to`, the heads side by side: [batch * queries, H *
   head_dim]. Each task runs vit__attention_rows over some rows of one head. */
static vit__mat vit__attend(const vit__pass *p, const vit__block_layers *w, vit__mat qkv,
                            float *to) {
    const int width = qkv.cols / 3;
    const vit__mat context = vit__matrix(to, (size_t)width, p->batch * p->queries, width);
    vit__attention job;
    vit__phase(p->session, VIT_PHASE_ATTENTION);
    vit__attention_init(&job, p, VIT__CONFIG(p->session->model)->num_heads, &w->qkv);
    job.rel_pos = w->rel_pos;
    job.lambda = w->lambda;
    job.q = qkv.data;
    job.k = job.q + width;
    job.v = job.k + width;
    job.ldq = job.ldk = qkv.ld;
    job.context = to;
    vit__parallel_for(p->session, job.num_tasks, vit__attention_task, &job);
    vit__show_rows(p, ".attn.context", context);
    return context;
}

/* ------------------------------------------------------------------------- */
/* >>block                                                                   */
/* ------------------------------------------------------------------------- */

/* The transformer block: read vit__block, at the end of this section. Its steps come first, in
   the order in which it calls them. vit__norm_before and vit__add_branch have a case for each
   block type; vit__shares_norm is 1 where both branches share a norm. */

/* 1 if later steps read only some tokens of each image. */
static int vit__is_partial(const vit__pass *p) {
    return !VIT__SMALL && p->queries < VIT__CONFIG(p->session->model)->num_tokens;
}

/* Removes from x the rows that later steps do not read, and closes the gaps. */
static vit__mat vit__drop_unread(const vit__pass *p, vit__mat x) {
    const size_t tokens = (size_t)(x.rows / p->batch), floats = (size_t)p->queries * x.ld;
    int i;
    if (!vit__is_partial(p)) return x;
    for (i = 1; i < p->batch; i++)
        memmove(x.data + (size_t)i * floats, x.data + (size_t)i * tokens * x.ld,
                floats * sizeof(float));
    x.rows = p->batch * p->queries;
    return x;
}

/* Rows [first, first + rows), or fewer at the end. */
static vit__mat vit__part(vit__mat m, int first, int rows) {
    m.data += (size_t)first * m.ld;
    m.rows = vit__min(m.rows - first, rows);
    return m;
}

/* --- attention ------------------------------------------------------------------------ */

/* The norm in front of a branch. NULL if the branch reads x itself, as in post-norm blocks, whose
   norm follows the branch (vit__add_branch). Both branches of a parallel block have the same
   norm. */
static const vit__affine *vit__norm_before(const vit_config *c, const vit__affine *norm) {
    switch ((vit_block_type)c->block_type) {
    case VIT_BLOCK_PRE_NORM:
    case VIT_BLOCK_PARALLEL: return norm;
    case VIT_BLOCK_POST_NORM:
    case VIT_BLOCK_RES_POST_NORM:
    case VIT_NUM_BLOCK_TYPES: break;
    }
    return NULL;
}

/* attn.qkv(y): k and v of every token, q only of tokens that later steps read. */
static vit__mat vit__qkv(const vit__pass *p, const vit__layer *layer, vit__mat y, float *to) {
    const vit_session *s = p->session;
    const vit__mat out = vit__matrix(to, (size_t)layer->cols, y.rows, layer->cols);
    const int width = layer->cols / 3;
    vit__linear qkv;
    int token;
    vit__phase(s, VIT_PHASE_QKV);
    if (!vit__is_partial(p)) return vit__layer_run(p, layer, y, to, VIT__NO_ACT, ".attn.qkv");
    vit__layer_init(&qkv, s, layer, y, out);
    qkv.first_panel = width / 16;
    vit__linear_run(s, &qkv);
    qkv.first_panel = 0;
    qkv.end_panel = vit__ceil_div(width, 16);
    vit__linear_rows(&qkv, p->batch);
    qkv.lda *= (size_t)(y.rows / p->batch);
    qkv.out.ldc *= (size_t)(y.rows / p->batch);
    for (token = 0; token < p->queries; token++) {
        vit__linear_run(s, &qkv);
        qkv.a = (const float *)qkv.a + y.ld;
        qkv.out.c += out.ld;
    }
    return out;
}

/* Normalises q and k of every head, in place. */
static void vit__qk_norm(const vit__pass *p, const vit__block_layers *w, vit__mat qkv) {
    const int width = qkv.cols / 3;
    int is_k;
    for (is_k = 0; is_k < 2; is_k++) {
        const vit__mat part = vit__matrix(qkv.data + is_k * width, qkv.ld, qkv.rows, width);
        vit__rows job;
        vit__rows_init(&job, p->session, is_k ? &w->k_norm : &w->q_norm, part, part.data);
        job.y = part;
        job.norm.dim = VIT__CONFIG(p->session->model)->head_dim;
        vit__rows_run(p, &job, NULL);
    }
    vit__show_rows(p, ".attn.qk_norm", qkv);
}

/* Rotates q or k of head h of one token, in place, if the token is a patch. */
static void vit__rotate_token(const vit_session *s, const vit__block_layers *w, int token, int h,
                              float *x) {
    const vit_config *c = VIT__CONFIG(s->model);
    const int patch = token - c->num_prefix_tokens, half = c->head_dim / 2;
    const int table = c->rope_per_block ? h * c->num_patches : 0;
    const size_t at = (size_t)(table + patch) * (size_t)half;
    if (patch < 0 || !c->rope) return;
    vit__kernels_of(s)->rotate((vit_rope)c->rope, x, w->rope_cos + at, w->rope_sin + at, half);
}

typedef struct vit__rope_job {
    const vit_session *session;
    const vit__block_layers *w;
    vit__mat qkv;
    int num_tasks;
} vit__rope_job;

static void vit__rope_task(void *arg, int index) {
    const vit__rope_job *job = (const vit__rope_job *)arg;
    const vit_config *c = VIT__CONFIG(job->session->model);
    int row, h, end = vit__share(job->qkv.rows, index, job->num_tasks, &row);
    for (; row < end; row++) {
        float *x = job->qkv.data + (size_t)row * job->qkv.ld;
        for (h = 0; h < 2 * c->num_heads; h++, x += c->head_dim)
            vit__rotate_token(job->session, job->w, row % c->num_tokens, h % c->num_heads, x);
    }
}

/* Applies rotary positions to q and k. */
static void vit__rope(const vit__pass *p, const vit__block_layers *w, vit__mat qkv) {
    vit__rope_job job;
    job.session = p->session;
    job.w = w;
    job.qkv = qkv;
    job.num_tasks = vit__min(qkv.rows, vit__threads(&p->session->params));
    vit__parallel_for(p->session, job.num_tasks, vit__rope_task, &job);
    vit__show_rows(p, ".attn.rope", qkv);
}

/* Converts the attention's output, in place, to the form that attn.proj reads. has_attn_norm first
   normalises each row; differential attention first normalises each head, with the paper's
   RMSNorm. */
VIT__CALL vit__mat vit__attn_norm(const vit__pass *p, const vit__block_layers *w,
                                  vit__mat context) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const int per_head = c->has_diff_attn;
    vit__rows job;
    vit__rows_init(&job, s, per_head ? &w->sub_norm : &w->attn_norm, context, context.data);
    if (per_head) {
        job.norm.dim = c->head_dim;
        job.norm.eps = 1e-5f;
    }
    job.form = vit__form_of(s, &w->proj);
    return vit__rows_run(p, &job, per_head ? ".attn.sub_norm" : ".attn.norm");
}

/* --- attention, head by head: low_memory ----------------------------------------------- */

/* Computes q, k and v of one head when they are needed, from rows of x that are normed again each
   time, a few at a time. The block stores only x, the context and the panels of a head. If the rows
   that attn.proj reads are shorter than those of the context, queries are processed in batches.
   Each batch is compacted before the next is appended, and k and v are computed again for each
   batch. Every element is computed as in vit__block, so the bits are the same. */
typedef struct vit__stream {
    vit__attention attention;
    const vit__block_layers *w;
    float *x;                    /* [N, D] */
    vit__linear qkv;             /* the whole layer, for its weights */
} vit__stream;

enum { VIT__MAX_SWEEPS = 5 }; /* sweeps over all keys; more would save little */

/* How often the keys are computed for `rows` rows of context, each of which becomes `packed`
   floats; more than VIT__MAX_SWEEPS if the memory is too small. */
static int vit__count_sweeps(int room, int rows, int width, int packed) {
    int passes = 0;
    for (; rows > 0 && passes <= VIT__MAX_SWEEPS; passes++) {
        const int now = vit__min(rows, room / width);
        rows -= now;
        room -= now * packed;
    }
    return passes;
}

/* Floats of the context. */
static int vit__context_room(const vit_config *c, vit__form form) {
    const int width = c->num_heads * c->head_dim, packed = vit__form_floats(form, width);
    int room = c->num_tokens * packed;
    while (packed < width &&
           vit__count_sweeps(room, c->num_tokens, width, packed) > VIT__MAX_SWEEPS)
        room += width;
    return room;
}

/* Some tokens on their way to q, k or v of head h. */
typedef struct vit__slice {
    int h, first, rows;
} vit__slice;

/* Their rows of x, as the qkv layer reads them. */
static void vit__stream_rows(const vit__stream *job, vit__slice slice, float *tile) {
    const vit_session *s = job->attention.session;
    const vit_config *c = VIT__CONFIG(s->model);
    const size_t dim = (size_t)c->embed_dim;
    const vit__mat x = vit__matrix(job->x + (size_t)slice.first * dim, dim, slice.rows,
                                   c->embed_dim);
    vit__rows rows;
    int r;
    vit__rows_init(&rows, s, vit__norm_before(c, &job->w->norm1), x, tile);
    rows.form = vit__known_gemm(job->qkv.gemm)->form;
    for (r = 0; r < slice.rows; r++) vit__row(&rows, r);
}

/* Computes q, k or v, number 0, 1 or 2, from the rows in `tile`; q and k are normed and rotated.
   Writes to `to`, and returns the position within it where they begin. */
static float *vit__stream_slice(const vit__stream *job, vit__slice slice, int which,
                                const float *tile, float *to) {
    const vit_session *s = job->attention.session;
    const vit_config *c = VIT__CONFIG(s->model);
    const int column = (which * c->num_heads + slice.h) * c->head_dim, panel = column / 16;
    const vit__mat out = vit__matrix(to + column % 16, job->attention.ldq, slice.rows, c->head_dim);
    vit__linear l = job->qkv;
    vit__rows norm;
    int r;
    vit__rows_init(&norm, s, which ? &job->w->k_norm : &job->w->q_norm, out, out.data);
    norm.y = out;
    l.panels += (size_t)panel * l.stride;
    if (l.out.bias) l.out.bias += panel * 16;
    l.cols = vit__min(l.cols - panel * 16, column % 16 + c->head_dim);
    vit__linear_rows(&l, slice.rows);
    l.a = tile;
    l.lda = (size_t)c->embed_dim * sizeof(float);
    l.out.c = to;
    l.out.ldc = out.ld;
    vit__gemm(&l, 0, l.num_tiles, 0, vit__ceil_div(l.cols, 16));
    for (r = 0; r < slice.rows && which < 2; r++) {
        if (c->has_qk_norm) vit__row(&norm, r);
        vit__rotate_token(s, job->w, slice.first + r, slice.h, out.data + (size_t)r * out.ld);
    }
    return out.data;
}

/* Packs a head's panels, a few tokens at a time, then runs its queries, a tile at a time. */
static void vit__stream_task(void *arg, int index) {
    const vit__stream *job = (const vit__stream *)arg;
    const vit__attention *a = &job->attention;
    const vit__kernels *kernels = vit__known_kernels(job->qkv.kernels);
    const int tile_rows = kernels->gemm[a->dtype].tile_rows, end = a->first + a->queries;
    vit__slice slice;
    vit__attn_head head;
    for (slice.h = index; slice.h < a->heads; slice.h += a->num_tasks) {
        vit__attention_begin(a, slice.h, index, &head);
        for (slice.first = 0; slice.first < a->keys; slice.first += slice.rows) {
            vit__unpacked from;
            slice.rows = vit__min(tile_rows, a->keys - slice.first);
            vit__stream_rows(job, slice, head.tile);
            from.k = vit__stream_slice(job, slice, 1, head.tile, head.slices[0]);
            from.v = vit__stream_slice(job, slice, 2, head.tile, head.slices[1]);
            from.ld = a->ldk;
            from.first = slice.first;
            from.count = slice.rows;
            kernels->pack_head(a->dtype, &head.packing, &from);
        }
        vit__attention_end_pack(a, &head);
        for (slice.first = a->first; slice.first < end; slice.first += slice.rows) {
            vit__queries tile;
            slice.rows = vit__min(tile_rows, end - slice.first);
            vit__stream_rows(job, slice, head.tile);
            tile.q = vit__stream_slice(job, slice, 0, head.tile, head.slices[0]);
            tile.first = slice.first;
            tile.rows = slice.rows;
            vit__attention_rows(a, &head, tile);
        }
    }
}

/* attn_norm(attention(qkv(norm1(x)))) at `to`, as many rows at a time as memory allows. */
VIT__CALL vit__mat vit__attend_by_head(const vit__pass *p, const vit__block_layers *w, float *x,
                                       float *to) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const int width = c->num_heads * c->head_dim;
    const size_t packed = (size_t)vit__form_floats(vit__form_of(s, &w->proj), width);
    const size_t wide = (size_t)width;
    vit__stream job;
    vit__attention *a = &job.attention;
    vit__attention_init(a, p, c->num_heads, &w->qkv);
    a->rel_pos = w->rel_pos;
    a->lambda = w->lambda;
    a->ldq = a->ldk = (size_t)vit__slice_width(c);
    a->num_tasks = vit__min(c->num_heads, a->num_tasks);
    job.w = w;
    job.x = x;
    vit__linear_init(&job.qkv, vit__kernels_of(s), &w->qkv);
    for (; a->first < p->queries; a->first += a->queries) {
        const size_t at = (size_t)a->first * packed;
        int r;
        a->context = to + at;
        a->queries = vit__min(p->queries - a->first, (int)((s->y_size - at) / wide));
        vit__phase(s, VIT_PHASE_ATTENTION);
        vit__parallel_for(s, a->num_tasks, vit__stream_task, &job);
        vit__attn_norm(p, w, vit__matrix(a->context, wide, a->queries, width));
        for (r = 1; r < a->queries && packed < wide; r++)
            memmove(a->context + (size_t)r * packed, a->context + (size_t)r * wide,
                    packed * sizeof(float));
    }
    return vit__matrix(to, packed, p->queries, width);
}

/* --- out of a branch ------------------------------------------------------------------ */

/* The end of a residual branch. */
typedef struct vit__branch {
    const vit__layer *last;
    const vit__affine *norm;
    const float *scale; /* LayerScale, or NULL */
    const char *name;   /* trace name of its last layer */
    vit_phase phase;
} vit__branch;

/* Applies the branch's last layer to rows a, which it overwrites, and adds the result to x. In a
   post-norm block, it then normalises the sum, in x. */
static void vit__add_branch(const vit__pass *p, const vit__branch *b, vit__mat a, vit__mat x) {
    const vit_session *s = p->session;
    vit__mat out;
    vit__phase(s, b->phase);
    switch ((vit_block_type)VIT__CONFIG(s->model)->block_type) {
    case VIT_BLOCK_PRE_NORM: /* x + f(norm(x)) */
        vit__layer_add(p, b->last, a, b->scale, x, b->name);
        break;
    case VIT_BLOCK_POST_NORM: /* norm(x + f(x)) */
        vit__layer_add(p, b->last, a, b->scale, x, b->name);
        vit__norm(p, b->norm, x, x.data, NULL, NULL);
        break;
    case VIT_BLOCK_RES_POST_NORM: /* x + norm(f(x)) */
        out = vit__layer_run(p, b->last, a, vit__spare(s, a), VIT__NO_ACT, b->name);
        vit__norm(p, b->norm, out, out.data, NULL, NULL);
        vit__add_rows(s, b->scale, out, x);
        break;
    case VIT_BLOCK_PARALLEL: /* x + f(norm(x)) + g(norm(x)): y gets norm(x) before x changes */
        if (b->phase == VIT_PHASE_FC2) {
            vit__layer_add(p, b->last, a, b->scale, x, b->name);
            break;
        }
        out = vit__layer_run(p, b->last, a, vit__spare(s, a), VIT__NO_ACT, b->name);
        vit__norm(p, b->norm, x, s->y, NULL, NULL);
        vit__add_rows(s, b->scale, out, x);
        break;
    case VIT_NUM_BLOCK_TYPES: break;
    }
}

/* pre-norm: x += ls1 * attn.proj(context) */
static void vit__add_attention(const vit__pass *p, const vit__block_layers *w, vit__mat context,
                               vit__mat x) {
    const vit__branch b = { &w->proj, &w->norm1, w->ls1, ".attn.proj", VIT_PHASE_PROJ };
    vit__add_branch(p, &b, context, x);
}

/* pre-norm: x += ls2 * mlp.fc2(mlp_norm(act(mlp.fc1(norm2(x))))). Branches that share a norm, whose
   output is already in y, share LayerScale too. */
static void vit__mlp(const vit__pass *p, const vit__block_layers *w, vit__mat x) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const int act = VIT__ACT(c->activation), gated = c->has_gated_mlp;
    const int shared = vit__shares_norm(c);
    const vit__branch b = { &w->fc2, &w->norm2, shared ? w->ls1 : w->ls2, ".mlp.fc2",
                            VIT_PHASE_FC2 };
    const vit__mat in = shared ? vit__matrix(s->y, (size_t)x.cols, x.rows, x.cols) : x;
    vit__mat y, hidden;
    vit__rows rows;
    y = vit__norm(p, vit__norm_before(c, &w->norm2), in, s->y, &w->fc1, ".norm2");
    vit__phase(s, VIT_PHASE_FC1);
    hidden = vit__layer_run(p, &w->fc1, y, s->scratch, gated ? VIT__NO_ACT : act, ".mlp.fc1");
    hidden.cols = c->mlp_dim;
    if (!gated) vit__show_rows(p, ".mlp.act", hidden);
    vit__rows_init(&rows, s, &w->mlp_norm, hidden, hidden.data);
    rows.y = hidden;
    rows.gate = gated ? act : VIT__NO_ACT;
    rows.form = vit__form_of(s, &w->fc2);
    hidden = vit__rows_run(p, &rows, ".mlp.norm");
    vit__add_branch(p, &b, hidden, x);
}

/* --- the block ------------------------------------------------------------------------ */

/* The steps of vit__block with low_memory, a few rows at a time. */
static vit__mat vit__block_low(const vit__pass *p, const vit__block_layers *w, vit__mat x) {
    const vit_session *s = p->session;
    const int chunk = s->chunk;
    const vit__mat context = vit__attend_by_head(p, w, x.data, s->y);
    int i;
    x = vit__drop_unread(p, x);
    for (i = 0; i < x.rows; i += chunk)
        vit__add_attention(p, w, vit__part(context, i, chunk), vit__part(x, i, chunk));
    for (i = 0; i < x.rows && VIT__CONFIG(s->model)->mlp_dim; i += chunk)
        vit__mlp(p, w, vit__part(x, i, chunk));
    return x;
}

/* A block whose tokens attend only to themselves: attn.proj is the whole branch, and the maps are
   constant. With low_memory, a part has few rows; otherwise, one part has all. */
static vit__mat vit__block_self(const vit__pass *p, const vit__block_layers *w, vit__mat x) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const size_t n = (size_t)c->num_tokens, rows = (size_t)(p->batch * c->num_heads) * n;
    size_t row;
    int i;
    if (!VIT__LOGITS_ONLY && p->maps) {
        memset(p->maps, 0, rows * n * sizeof(float));
        for (row = 0; row < rows; row++) p->maps[row * n + row % n] = 1.0f;
    }
    x = vit__drop_unread(p, x);
    for (i = 0; i < x.rows; i += vit__min(s->chunk, x.rows)) {
        const vit__mat part = vit__part(x, i, s->chunk);
        const vit__affine *norm = vit__norm_before(c, &w->norm1);
        vit__add_attention(p, w, vit__norm(p, norm, part, s->y, &w->proj, ".norm1"), part);
    }
    vit__show_rows(p, ".attn", x);
    for (i = 0; i < x.rows && c->mlp_dim; i += vit__min(s->chunk, x.rows))
        vit__mlp(p, w, vit__part(x, i, s->chunk));
    vit__show_rows(p, "", x);
    return x;
}

/* Runs x [batch * N, D] through one block, in place; returns the rows that later steps read. The
   comments show a pre-norm block, equations 2 and 3 of the paper (arXiv 2010.11929). The paper's z
   is x, its U_qkv attn.qkv and its U_msa attn.proj:
      z' = MSA(LN(z)) + z    z = MLP(LN(z')) + z'
   Other kinds (vit_block_type) norm elsewhere: their norm1 is NULL, so that y is a copy of x, and
   vit__add_branch normalises. y is in the form that the next layer reads, such as bytes for int8
   weights. It holds a branch's input, then the context; scratch holds qkv, then the MLP's hidden
   layer. */
static vit__mat vit__block(const vit__pass *p, const vit__block_layers *w, vit__mat x) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const vit__affine *norm1 = vit__norm_before(c, &w->norm1);
    vit__mat y, qkv, context;

    y = vit__norm(p, norm1, x, s->y, &w->qkv, ".norm1"); /* y = norm1(x)                   */
    qkv = vit__qkv(p, &w->qkv, y, s->scratch);           /* q, k, v = attn.qkv(y)          */
    if (c->has_qk_norm) vit__qk_norm(p, w, qkv);         /* q, k = q_norm(q), k_norm(k)    */
    if (c->rope) vit__rope(p, w, qkv);                   /* rotates q and k by their positions */
    context = vit__attend(p, w, qkv, s->y);              /* softmax(scale q k^T) v         */
    context = vit__attn_norm(p, w, context);             /* few models have such a norm    */
    x = vit__drop_unread(p, x);                          /* the last block keeps few rows  */
    vit__add_attention(p, w, context, x);                /* x += ls1 * attn.proj(context)  */
    vit__show_rows(p, ".attn", x);

    if (c->mlp_dim) vit__mlp(p, w, x);                   /* x += ls2 * mlp(norm2(x))       */
    vit__show_rows(p, "", x);
    return x;
}

/* ------------------------------------------------------------------------- */
/* >>head                                                                    */
/* ------------------------------------------------------------------------- */

/* Final norm, pooling, representation layer, logits; softmax and top-k. */

/* The tail's buffers, in scratch. */
typedef struct vit__tail {
    float *kv;             /* map pooling: [batch, N, 2, A]; it shares its memory with
                              the members below, which are used later */
    float *pooled;         /* [batch, the head's input width], with room for D more        */
    float *dist;           /* [batch, D] of the distillation token                         */
    float *hidden;         /* [batch, hidden width] of map pooling                         */
    float *representation; /* [batch, representation_dim]                                  */
    float *dist_logits;    /* [batch, num_classes]                                         */
    int merged;            /* rows of the merger at once: all, or few with low_memory      */
    float *joined, *merger_hidden; /* [merged, m * m * D], [merged, merge_mlp_dim]         */
} vit__tail;

static void vit__place_tail(const vit_session *s, int images, vit__arena *arena, vit__tail *t) {
    const vit_config *c = VIT__CONFIG(s->model);
    const uint64_t batch = (uint64_t)(unsigned)images, dim = (uint64_t)(unsigned)c->embed_dim;
    const uint64_t width = (uint64_t)(unsigned)(c->num_heads * c->head_dim);
    const int patches = vit__merged_patches(c);
    vit__arena kv = *arena, merger = *arena;
    if (patches) {
        t->merged = vit__min(s->chunk, images * c->num_patches / patches);
        t->joined = vit__take(&merger, (uint64_t)(unsigned)(t->merged * patches) * dim);
        t->merger_hidden = vit__take(&merger, (uint64_t)(unsigned)t->merged *
                                                  (unsigned)c->merge_mlp_dim);
    }
    if (c->pool == VIT_POOL_MAP)
        t->kv = vit__take(&kv, batch * (unsigned)c->num_tokens * 2 * width);
    t->pooled = vit__take(arena, batch * 2 * dim);
    if (c->has_dist_token) t->dist = vit__take(arena, batch * dim);
    if (c->has_dist_token) t->dist_logits = vit__take(arena, batch * (unsigned)c->num_classes);
    if (c->pool == VIT_POOL_MAP)
        t->hidden = vit__take(arena, batch * (unsigned)vit__pool_hidden(c));
    if (c->representation_dim)
        t->representation = vit__take(arena, batch * (unsigned)c->representation_dim);
    arena->used = vit__max64(arena->used, vit__max64(kv.used, merger.used));
}

/* act(a w^T + b) at `to`, of rows a, which it overwrites. */
static vit__mat vit__tail_layer(const vit__pass *p, const vit__layer *layer, vit__mat a, float *to,
                                int act) {
    a = vit__norm(p, NULL, a, a.data, layer, NULL);
    vit__phase(p->session, VIT_PHASE_HEAD);
    return vit__layer_run(p, layer, a, to, act, NULL);
}

/* --- pooling ------------------------------------------------------------------------ */

/* The first pooled token. */
static int vit__first_pooled(const vit_config *c) {
    return c->pool_prefix ? 0 : c->num_prefix_tokens;
}

/* Sets up map pooling's attention, except keys and values: one query, the same for all images. */
static void vit__map_attention(const vit__pass *p, const vit__tail_layers *w,
                               vit__attention *job) {
    const vit_config *c = VIT__CONFIG(p->session->model);
    vit__attention_init(job, p, vit__pool_heads(c), &w->pool_kv);
    if (c->pool_num_heads) job->scale = 1.0f / vit__sqrt((float)job->dim);
    job->q = w->pool_q;
    job->is_pooling = 1;
    job->causal = 0;
    job->keys = c->num_tokens - vit__first_pooled(c);
    job->maps = NULL;
    job->queries = 1;
}

/* timm's AttentionPoolLatent over the normed tokens x, then pooled + mlp(norm(pooled)). */
static void vit__map_pool(const vit__pass *p, const vit__tail_layers *w, const vit__tail *t,
                          vit__mat x) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const vit__mat kv = vit__tail_layer(p, &w->pool_kv, x, t->kv, VIT__NO_ACT);
    const int width = kv.cols / 2;
    vit__mat context = vit__matrix(s->y, (size_t)width, p->batch, width), pooled, y, hidden;
    vit__attention job;
    vit__map_attention(p, w, &job);
    job.ldk = kv.ld;
    job.k = kv.data + (size_t)vit__first_pooled(c) * kv.ld;
    job.v = job.k + width;
    job.context = context.data;
    vit__parallel_for(s, job.num_tasks, vit__attention_task, &job);
    pooled = vit__tail_layer(p, &w->pool_proj, context, t->pooled, VIT__NO_ACT);
    y = vit__norm(p, &w->pool_norm, pooled, s->y, NULL, NULL);
    hidden = vit__tail_layer(p, &w->pool_fc1, y, t->hidden, VIT__ACT(c->activation));
    hidden = vit__norm(p, NULL, hidden, hidden.data, &w->pool_fc2, NULL);
    vit__phase(s, VIT_PHASE_HEAD);
    vit__layer_add(p, &w->pool_fc2, hidden, NULL, pooled, NULL);
}

/* The mean or the maximum of n rows, column by column. */
static void vit__reduce_rows(const float *x, int n, int dim, int largest, float *out) {
    int r, i;
    memcpy(out, x, (size_t)dim * sizeof(float));
    for (r = 1; r < n; r++) {
        x += dim;
        for (i = 0; i < dim; i++) out[i] = largest ? vit__larger(x[i], out[i]) : out[i] + x[i];
    }
    for (i = 0; i < dim && !largest; i++) out[i] /= (float)n;
}

/* The mean of two rows, as timm computes it: (a + b) / 2. */
static void vit__mean2(float *out, const float *a, const float *b, int n) {
    int i;
    for (i = 0; i < n; i++) out[i] = (a[i] + b[i]) / 2.0f;
}

/* Pools the normed tokens [N, D] of one image into `pooled`, which has room for D floats more. */
static void vit__pool_image(const vit_config *c, const float *tokens, float *pooled) {
    const int dim = c->embed_dim, first = vit__first_pooled(c);
    const float *patches = tokens + first * dim;
    const int n = c->num_tokens - first;
    switch ((vit_pool)c->pool) {
    case VIT_POOL_TOKEN: break; /* vit__pool norms only the tokens that are read */
    case VIT_POOL_MAP: break;   /* vit__map_pool handles all images at once */
    case VIT_POOL_LAST:         /* as VIT_POOL_TOKEN */
    case VIT_POOL_ARGMAX: break;
    case VIT_POOL_AVG: vit__reduce_rows(patches, n, dim, 0, pooled); break;
    case VIT_POOL_MAX: vit__reduce_rows(patches, n, dim, 1, pooled); break;
    case VIT_POOL_AVGMAX:
        vit__reduce_rows(patches, n, dim, 0, pooled);
        vit__reduce_rows(patches, n, dim, 1, pooled + dim);
        vit__mean2(pooled, pooled, pooled + dim, dim);
        break;
    case VIT_POOL_TOKEN_AVG:
        memcpy(pooled, tokens, (size_t)dim * sizeof(float));
        vit__reduce_rows(patches, n, dim, 0, pooled + dim);
        break;
    case VIT_NUM_POOLS: break;
    }
}

/* The number of the token that a text is pooled to, counted without prefix tokens. */
static int vit__end_of_text(const vit__pass *p, int text) {
    const vit_config *c = VIT__CONFIG(p->session->model);
    const int n = c->num_patches, first = text * n;
    int end = 0, i;
    if (c->pool == VIT_POOL_LAST) return n - 1;
    for (i = 1; i < n; i++)
        if (vit__id(p, first + i) > vit__id(p, first + end)) end = i;
    return end;
}

/* Turns x into the head's input: final norm, pooling, fc_norm. t->dist receives the normed
   distillation token. */
static vit__mat vit__pool(const vit__pass *p, const vit__tail_layers *w, const vit__tail *t,
                          vit__mat x) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const int batch = p->batch, wide = vit__pooled_dim(c);
    const size_t image = (size_t)(x.rows / batch) * x.ld;
    const vit__mat pooled = vit__matrix(t->pooled, (size_t)wide, batch, wide);
    int i;
    if (c->pool == VIT_POOL_TOKEN) {
        const vit__mat cls = vit__matrix(x.data, image, batch, x.cols);
        const vit__mat dist = vit__matrix(x.data + x.ld, image, batch, x.cols);
        vit__norm(p, &w->norm, cls, t->pooled, NULL, NULL);
        if (c->has_dist_token) vit__norm(p, &w->norm, dist, t->dist, NULL, NULL);
    } else if (vit__is_text(c) && c->pool >= VIT_POOL_LAST) {
        for (i = 0; i < batch; i++) {
            const size_t token = (size_t)(c->num_prefix_tokens + vit__end_of_text(p, i));
            vit__norm(p, &w->norm,
                      vit__matrix(x.data + (size_t)i * image + token * x.ld, x.ld, 1, x.cols),
                      t->pooled + (size_t)i * pooled.ld, NULL, NULL);
        }
    } else {
        vit__norm(p, &w->norm, x, x.data, NULL, NULL);
        if (c->pool == VIT_POOL_MAP) vit__map_pool(p, w, t, x);
        for (i = 0; i < batch; i++)
            vit__pool_image(c, x.data + (size_t)i * image, t->pooled + (size_t)i * pooled.ld);
    }
    vit__phase(s, VIT_PHASE_HEAD);
    vit__show(p, "pool", t->pooled, wide, 0, 0);
    if (!c->has_fc_norm) return pooled;
    vit__norm(p, &w->fc_norm, pooled, t->pooled, NULL, NULL);
    vit__show(p, "fc_norm", t->pooled, wide, 0, 0);
    return pooled;
}

/* --- the merger ----------------------------------------------------------------------- */

/* fc2(act(fc1(norm(a)))), where a row of `a` is m x m patches of norm(x), row by row. */
static void vit__merge(const vit__pass *p, const vit__tail_layers *w, const vit__tail *t,
                       vit__mat x, float *merged) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const int m = c->merge_size, across = c->grid_width / m, wide = m * m * c->embed_dim;
    const int image = c->num_patches / (m * m), all = p->batch * image;
    const size_t run = (size_t)m * (size_t)c->embed_dim; /* m tokens, side by side */
    int first, i;
    for (first = 0; first < all; first += t->merged) {
        vit__mat a = vit__matrix(t->joined, run * (size_t)m, vit__min(t->merged, all - first),
                                 wide);
        vit__rows job;
        for (i = 0; i < a.rows * m; i++) {
            const int token = first + i / m, at = token % image;
            const int patch = (at / across * m + i % m) * c->grid_width + at % across * m;
            memcpy(a.data + (size_t)i * run,
                   x.data + (size_t)(token / image * c->num_tokens + c->num_prefix_tokens + patch) *
                                x.ld,
                   run * sizeof(float));
        }
        vit__norm(p, &w->norm, vit__matrix(a.data, run / (size_t)m, a.rows * m * m, c->embed_dim),
                  a.data, NULL, NULL);
        vit__rows_init(&job, s, &w->merger_norm, a, a.data);
        job.norm.dim = vit__dim(c, 'y');
        job.form = vit__form_of(s, &w->merger_fc1);
        a = vit__rows_run(p, &job, "merger.norm");
        vit__phase(s, VIT_PHASE_HEAD);
        a = vit__layer_run(p, &w->merger_fc1, a, t->merger_hidden, VIT__ACT(c->merge_act),
                           "merger.fc1");
        vit__show_rows(p, "merger.act", a);
        vit__tail_layer(p, &w->merger_fc2, a, merged + (size_t)first * (size_t)c->merge_dim,
                        VIT__NO_ACT);
    }
    vit__show(p, "merger", merged, image, c->merge_dim, 0);
}

/* --- embedding and logits ------------------------------------------------------------- */

/* Computes from x the outputs that the caller requested: tokens, embedding, logits. With a
   distillation token, the embedding is a mean of two, and so are the logits. */
static void vit__head(const vit__pass *p, vit__mat x, const vit_outputs *out) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    vit__arena scratch = { s->scratch, 0 };
    float *tokens = VIT__LOGITS_ONLY ? NULL : out->tokens;
    const int in_layer = c->representation_act >= VIT_REPRESENTATION_GELU;
    vit__tail_layers w;
    vit__tail t;
    vit__mat read;
    int n, i;
    memset(&t, 0, sizeof t);
    vit__find_tail(s->model, &w);
    vit__place_tail(s, p->batch, &scratch, &t);
    vit__phase(s, VIT_PHASE_HEAD);
    if (!tokens && vit__is_traced(s)) tokens = s->y;
    if (tokens) {
        const vit__mat normed = vit__norm(p, &w.norm, x, tokens, NULL, NULL);
        vit__phase(s, VIT_PHASE_HEAD);
        vit__show_rows(p, "norm", normed);
    }
    if (vit__merged_patches(c) && out->merged) vit__merge(p, &w, &t, x, out->merged);
    if (!out->logits && !out->embedding) return;
    read = vit__pool(p, &w, &t, x);
    if (c->representation_dim) { /* ImageNet-21k checkpoints have a layer with tanh */
        read = vit__tail_layer(p, &w.pre_logits, read, t.representation,
                               in_layer ? VIT__ACT((int)VIT_GELU + c->representation_act -
                                                   (int)VIT_REPRESENTATION_GELU)
                                        : VIT__NO_ACT);
        n = read.rows * read.cols;
        for (i = 0; i < n && c->representation_act == VIT_REPRESENTATION_TANH; i++)
            read.data[i] = vit__kernels_of(s)->tanh(read.data[i]);
        vit__show(p, "pre_logits", read.data, read.cols, 0, 0);
    }
    n = read.rows * read.cols;
    if (out->embedding && c->has_dist_token) vit__mean2(out->embedding, read.data, t.dist, n);
    else if (out->embedding) memcpy(out->embedding, read.data, (size_t)n * sizeof(float));
    if (!out->logits) return;
    vit__tail_layer(p, &w.head, read, out->logits, VIT__NO_ACT);
    vit__show(p, "head", out->logits, c->num_classes, 0, 0);
    if (!c->has_dist_token) return;
    read = vit__matrix(t.dist, x.ld, read.rows, x.cols);
    vit__tail_layer(p, &w.head_dist, read, t.dist_logits, VIT__NO_ACT);
    vit__show(p, "head_dist", t.dist_logits, c->num_classes, 0, 0);
    vit__mean2(out->logits, out->logits, t.dist_logits, read.rows * c->num_classes);
}

VIT_API void vit_softmax(float *x, int n) {
    if (n > 0) {
        const float factor = vit__softmax_scalar(x, NULL, n, 1.0f);
        vit__scale_scalar(x, x, n, factor);
    }
}

VIT_API void vit_sigmoid(float *x, int n) {
    int i;
    for (i = 0; i < n; i++) x[i] = 1.0f / (1.0f + vit__exp_of_scalar(-x[i]));
}

#ifndef VIT_NO_DOUBLE
/* Newton's iteration. Its first guess halves the exponent and is at most 7 % off. */
static double vit__sqrt_double(double x) {
    uint64_t bits;
    double root;
    int i;
    memcpy(&bits, &x, 8);
    bits = (bits >> 1) + (1023ull << 51);
    memcpy(&root, &bits, 8);
    for (i = 0; i < 5; i++) root = (root + x / root) / 2;
    return root;
}

/* Products of floats are exact in double, so the bits are the same with and without fma. */
VIT_API void vit_normalize(float *x, int n) {
    double square = 0.0, length;
    int i;
    for (i = 0; i < n; i++) square += (double)x[i] * (double)x[i];
    length = vit__sqrt_double(square);
    for (i = 0; i < n && square != 0.0; i++) x[i] = (float)((double)x[i] / length);
}

VIT_API float vit_cosine(const float *a, const float *b, int n) {
    double aa = 0.0, bb = 0.0, ab = 0.0;
    int i;
    for (i = 0; i < n; i++) {
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
        ab += (double)a[i] * (double)b[i];
    }
    return aa * bb != 0.0 ? (float)(ab / vit__sqrt_double(aa * bb)) : 0.0f;
}
#endif

VIT_API void vit_scores(const vit_model *model, float *x) {
    const vit_config *c;
    if (!vit__is_checked(model)) return;
    c = VIT__CONFIG(model);
    switch ((vit_head_activation)c->head_activation) {
    case VIT_HEAD_SOFTMAX: vit_softmax(x, c->num_classes); break;
    case VIT_HEAD_SIGMOID: vit_sigmoid(x, c->num_classes); break;
    case VIT_NUM_HEAD_ACTIVATIONS: break;
    }
}

/* 1 if score a ranks before score b; NaN ranks last. */
static int vit__ranks_before(float a, float b) {
    if (vit__is_nan(a)) return 0;
    return vit__is_nan(b) || a > b;
}

VIT_API int vit_top_k(const float *scores, int n, int k, vit_prediction *top) {
    int count = 0, i, at;
    for (i = 0; i < n; i++) {
        if (count == k || k <= 0) {
            if (k <= 0 || !vit__ranks_before(scores[i], top[k - 1].score)) continue;
            count--;
        }
        for (at = count; at > 0 && vit__ranks_before(scores[i], top[at - 1].score); at--)
            top[at] = top[at - 1];
        top[at].index = i;
        top[at].score = scores[i];
        count++;
    }
    return count;
}

VIT__COMPACT_END

VIT__COLD_BEGIN

/* ------------------------------------------------------------------------- */
/* >>workspace                                                               */
/* ------------------------------------------------------------------------- */

/* The memory of a session. vit__place_session measures it, and takes it. The sections that use
   scratch place its parts. */

/* Floats of scratch. Its users take turns: patches, qkv, a branch's output, the MLP's hidden layer,
   the tail. */
static uint64_t vit__scratch_floats(const vit_session *s, uint64_t rows) {
    const vit_config *c = VIT__CONFIG(s->model);
    const uint64_t width = (uint64_t)(unsigned)(c->num_heads * c->head_dim);
    const uint64_t hidden = (uint64_t)(unsigned)vit__max(vit__fc1_dim(c), c->embed_dim);
    const int has_qkv = c->attention != VIT_ATTENTION_SELF && !vit__is_low(&s->params);
    const uint64_t block = vit__max64(has_qkv ? rows * 3 * width : 0, rows * hidden);
    vit__arena patches = { NULL, 0 }, tail = { NULL, 0 };
    vit__stem_room stem;
    vit__tail t;
    vit__place_patches(s, vit__batch(s), &patches, &stem);
    vit__place_tail(s, vit__batch(s), &tail, &t);
    return vit__max64(block, vit__max64(patches.used, tail.used));
}

/* Floats of attention's memory for each thread: the most that any block needs, since blocks may
   differ in weight type. With low_memory also raises *context, the floats of y. */
static uint64_t vit__measure_attention(const vit_session *s, uint64_t *context) {
    const vit_config *c = VIT__CONFIG(s->model);
    const vit__pass p = vit__begin_pass(s, 1);
    uint64_t stride = 0;
    vit__attention job;
    int i;
    for (i = 0; i < c->depth && c->attention != VIT_ATTENTION_SELF; i++) {
        vit__block_layers w;
        vit__find_block(s->model, i, &w);
        vit__attention_init(&job, &p, c->num_heads, &w.qkv);
        job.lambda = w.lambda;
        stride = vit__max64(stride, vit__head_floats(&job));
        if (vit__is_low(&s->params))
            *context = vit__max64(*context, (uint64_t)(unsigned)vit__context_room(
                                                c, vit__form_of(s, &w.proj)));
    }
    if (c->pool == VIT_POOL_MAP) {
        vit__tail_layers w;
        vit__find_tail(s->model, &w);
        vit__map_attention(&p, &w, &job);
        stride = vit__max64(stride, vit__head_floats(&job));
    }
    return stride;
}

/* Floats of the cosines of a rope table; the sines take as many. */
static size_t vit__rope_floats(const vit_config *c) {
    const size_t table = (size_t)c->num_patches * (size_t)(c->head_dim / 2);
    return c->rope_per_block ? (size_t)c->num_heads * table : table;
}

static size_t vit__rel_pos_floats(const vit_config *c) {
    return (size_t)c->num_heads * (size_t)vit__num_rel_pos(c);
}

/* Places the tables for a grid other than the file's. */
static void vit__place_tables(vit_session *s, vit__arena *arena) {
    const vit_config *c = VIT__CONFIG(s->model);
    const uint64_t depth = (uint64_t)(unsigned)c->depth;
    if (!vit__is_regridded(s->model)) return;
    if (c->rope)
        s->rope = vit__take(arena, (c->rope_per_block ? depth : 1) * 2 *
                                       (uint64_t)vit__rope_floats(c));
    if (c->has_rel_pos)
        s->rel_pos = vit__take(arena, depth * (uint64_t)vit__rel_pos_floats(c));
}

#if !defined(VIT_NO_DOUBLE)

/* Computes cosines and sines of block `block`, in the file's byte order. */
static void vit__make_rope(const vit_session *s, int block, const float *rotations) {
    const vit_config *c = VIT__CONFIG(s->model);
    const vit_grid grid = { c->grid_height, c->grid_width };
    const size_t pairs = (size_t)(c->head_dim / 2), patches = (size_t)c->num_patches;
    const size_t floats = vit__rope_floats(c);
    float *out = s->rope + (c->rope_per_block ? (size_t)block * 2 * floats : 0);
    size_t i, k;
    for (i = 0; i < floats; i++) {
        const float *at = rotations + i / pairs / patches * 9 * pairs + i % pairs;
        vit_rotation rotation;
        float cosine, sine;
        for (k = 0; k < 3; k++) {
            rotation.row[k] = vit__stored(at + k * pairs);
            rotation.column[k] = vit__stored(at + (k + 3) * pairs);
        }
        rotation.offset = vit__stored(at + 6 * pairs);
        rotation.scale = vit__stored(at + 7 * pairs);
        rotation.origin = vit__stored(at + 8 * pairs);
        vit_rope_angle(&rotation, grid, (int)(i / pairs % patches), &cosine, &sine);
        vit__copy_stored(out + i, &cosine, 1);
        vit__copy_stored(out + floats + i, &sine, 1);
    }
}

/* Resamples the biases of every head of a block; those of the class token stay. */
static void vit__make_rel_pos(const vit_session *s, int block, const float *from) {
    const vit_model *m = s->model;
    const vit_config *c = VIT__CONFIG(m);
    const vit_grid grid = vit__grid(c, m->file_height, m->file_width);
    const vit_grid new_grid = { c->grid_height, c->grid_width };
    const int old = (2 * grid.height - 1) * (2 * grid.width - 1);
    const int now = vit__num_rel_pos(c) - 3;
    float *to = s->rel_pos + (size_t)block * vit__rel_pos_floats(c);
    int h;
    for (h = 0; h < c->num_heads; h++, from += old + 3, to += now + 3) {
        vit__resample_relative((vit_pos_resample)c->pos_resample, from, grid, to, new_grid, 1);
        memcpy(to + now, from + old, 3 * sizeof(float));
    }
}

/* Fills the tables that vit__place_tables placed. */
static void vit__make_tables(const vit_session *s) {
    const vit_config *c = VIT__CONFIG(s->model);
    vit__front_layers front;
    int i;
    vit__find_front(s->model, &front);
    for (i = 0; i < c->depth; i++) {
        vit__block_layers w;
        vit__find_block(s->model, i, &w);
        if (s->rope && c->rope_per_block) vit__make_rope(s, i, w.rotations);
        else if (s->rope && i == 0) vit__make_rope(s, i, front.rotations);
        if (s->rel_pos) vit__make_rel_pos(s, i, w.rel_pos);
    }
}

#endif /* VIT_NO_DOUBLE */

/* Places the buffers of a session whose model, params and kernels are set; returns their size in
   floats. The sum cannot overflow: batch < 2^31, threads <= 2^16, and vit_config_check limits the
   factors to 2^16 tokens and 2^24 elements a token. */
static uint64_t vit__place_session(vit_session *s, float *base) {
    const vit_config *c = VIT__CONFIG(s->model);
    const vit__kernels *kernels = vit__kernels_of(s);
    const int low = vit__is_low(&s->params);
    const int tile_rows = vit__max(vit__max(kernels->gemm[VIT_F32].tile_rows,
                                            kernels->gemm[VIT_BF16].tile_rows),
                                   kernels->gemm[VIT__HAS_I16 * VIT__I16].tile_rows);
    const uint64_t tokens = (uint64_t)(unsigned)vit__batch(s) *
                            (uint64_t)(unsigned)c->num_tokens;
    const uint64_t rows = low ? (uint64_t)(unsigned)tile_rows : tokens;
    const uint64_t dim = (uint64_t)(unsigned)c->embed_dim;
    const uint64_t width = (uint64_t)(unsigned)(c->num_heads * c->head_dim);
    uint64_t y = rows * vit__max64(dim, width), stride;
    vit__arena arena = { base, 0 }, attn;
    s->chunk = low ? tile_rows : 0x7fffffff;
    stride = vit__measure_attention(s, &y);
    s->x = vit__take(&arena, tokens * dim);
    s->y = vit__take(&arena, y);
    s->y_size = (size_t)vit__round64(y);
    s->positions = vit__is_resampled(s->model)
                       ? vit__take(&arena, (uint64_t)(unsigned)c->num_tokens * dim)
                       : NULL;
    vit__place_tables(s, &arena);
    attn = arena;
    s->scratch = vit__take(&arena, vit__scratch_floats(s, rows));
    /* Otherwise scratch and attn are never in use together, and share memory. */
    if (!low || c->pool == VIT_POOL_MAP) attn = arena;
    s->attn = vit__take(&attn, stride * (uint64_t)(unsigned)vit__threads(&s->params));
    s->attn_stride = (size_t)stride;
    return vit__max64(arena.used, attn.used);
}

/* Images computed together. The default is one on one thread; with more threads, each gets at most
   2^18 floats of an activation (1 MiB), which stay in its caches from layer to layer. 0 if one
   activation of params.batch images exceeds 2^31 floats. */
static int vit__images(const vit_config *c, const vit_params *params) {
    const int image = VIT__EXECUTOR ? c->num_tokens * (int)vit__largest_row(c) : 1;
    const int threads = vit__min(vit__threads(params), 0xfff);
    if (!VIT__EXECUTOR) return 1;
    if (params->batch < 0 || params->batch > 0x7fffffff / image) return 0;
    if (params->low_memory) return 1;
    if (params->batch) return params->batch;
    return threads > 1 ? vit__max((threads << 18) / image, 1) : 1;
}

/* Copies params and fills in the defaults; returns 0 for invalid params. */
static int vit__complete_params(const vit_config *c, const vit_params *given,
                                vit_params *params) {
    memset(params, 0, sizeof *params);
    if (given) *params = *given;
    if (!VIT__EXECUTOR) params->executor.parallel_for = NULL;
    if (!params->executor.parallel_for) params->executor.num_threads = 1;
    if (params->executor.num_threads == 0) params->executor.num_threads = 1;
    if (VIT__IS(VIT_LOW_MEMORY)) params->low_memory = 1;
    if (vit__trace_of(params) || vit__shares_norm(c)) params->low_memory = 0;
    params->batch = vit__images(c, params);
    return params->batch > 0 && params->executor.num_threads > 0 &&
           params->executor.num_threads <= 1 << 16 && vit__choose_kernels(params->isa) != NULL;
}

/* Sets up the parts of the session that need no workspace; returns 0 for invalid params. */
static int vit__begin_session(vit_session *s, const vit_model *model, const vit_params *params) {
    memset(s, 0, sizeof *s);
    if (!vit__is_open(model) ||
        !vit__complete_params(VIT__CONFIG(model), params, &s->params))
        return 0;
    s->model = model;
    if (!vit__has_one_tier()) s->kernels = vit__choose_kernels(s->params.isa);
    s->isa = vit__kernels_of(s)->isa;
    s->img_height = VIT__CONFIG(model)->img_height;
    s->img_width = VIT__CONFIG(model)->img_width;
    return 1;
}

/* Bytes of the session's workspace, with a margin to align its start. */
static uint64_t vit__session_bytes(vit_session *s) {
    return vit__place_session(s, NULL) * sizeof(float) + VIT_ALIGN;
}

VIT_API size_t vit_workspace_size(const vit_model *model, const vit_params *params) {
    vit_session session;
    if (!vit__begin_session(&session, model, params)) return 0;
    return vit__size(vit__session_bytes(&session));
}

VIT_API vit_result vit_session_init(vit_session *session, const vit_model *model,
                                    const vit_params *params, void *workspace, size_t size) {
    vit__front_layers stem;
    uint64_t needed;
    unsigned char *at;
    if (!session) return VIT_ERROR_ARGUMENT;
    if (!vit__begin_session(session, model, params)) return VIT_ERROR_ARGUMENT;
    needed = vit__session_bytes(session);
#if !defined(VIT_NO_MALLOC)
    if (!workspace && size == 0 && vit__size(needed)) {
        size = vit__size(needed);
        workspace = session->memory = VIT_MALLOC(size);
    }
#endif
    if (!workspace || size < needed) {
        session->model = NULL;
        return VIT_ERROR_MEMORY;
    }
    at = (unsigned char *)workspace + VIT_ALIGN - (uintptr_t)workspace % VIT_ALIGN;
    vit__place_session(session, (float *)(void *)at);
    vit__find_front(model, &stem);
    session->pos = vit__make_positions(model, stem.pos_embed, session->positions);
#if !defined(VIT_NO_DOUBLE)
    if (vit__is_regridded(model)) vit__make_tables(session);
#endif
    return VIT_OK;
}

/* ------------------------------------------------------------------------- */
/* >>forward                                                                 */
/* ------------------------------------------------------------------------- */

/* The network, top to bottom. */

/* The number, from 0, of the block that an entry of vit_outputs.blocks names. */
static int vit__block_of(const vit_config *c, const vit_block_output *o) {
    return o->index < 0 ? c->depth + o->index : o->index;
}

/* Finds the layers of a block. A block without rope tables gets those of the model. If the grid is
   not the file's, it gets those of the session instead. */
static void vit__begin_block(const vit_session *s, int block, vit__block_layers *w) {
    const vit_config *c = VIT__CONFIG(s->model);
    vit__find_block(s->model, block, w);
    if (c->rope && !c->rope_per_block) {
        vit__front_layers front;
        vit__find_front(s->model, &front);
        w->rope_cos = front.rope_cos;
        w->rope_sin = front.rope_sin;
    }
    if (!vit__is_regridded(s->model)) return;
    if (s->rope) {
        const size_t floats = vit__rope_floats(c);
        w->rope_cos = s->rope + (c->rope_per_block ? (size_t)block * 2 * floats : 0);
        w->rope_sin = w->rope_cos + floats;
    }
    if (s->rel_pos) w->rel_pos = s->rel_pos + (size_t)block * vit__rel_pos_floats(c);
}

/* Floats of one image in vit_block_output.tokens and .attention. */
static size_t vit__tokens_floats(const vit_config *c) {
    return (size_t)c->num_tokens * (size_t)c->embed_dim;
}

static size_t vit__maps_floats(const vit_config *c) {
    return (size_t)c->num_tokens * (size_t)c->num_tokens * (size_t)c->num_heads;
}

/* Directs the attention of images from number `image` on to the first entry that requests it, and
   lets the pass drop unread tokens. */
static void vit__begin_outputs(vit__pass *p, const vit_outputs *out, int image) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    int all = out->tokens || out->merged || vit__is_traced(s) || c->pool != VIT_POOL_TOKEN ||
              vit__shares_norm(c);
    int i;
    for (i = 0; !VIT__LOGITS_ONLY && i < out->num_blocks; i++) {
        const vit_block_output *o = &out->blocks[i];
        if (vit__block_of(c, o) != p->block) continue;
        if (o->attention && !p->maps)
            p->maps = o->attention + (size_t)image * vit__maps_floats(c);
        all = all || o->tokens || o->attention;
    }
    if (!VIT__SMALL && p->block == c->depth - 1 && !all) p->queries = 1 + c->has_dist_token;
}

/* Copies x, normed or not, to the entries of vit_outputs.blocks that request it. A function of its
   own, as the tail's layers would take stack in all blocks. */
VIT__NOINLINE static void vit__block_outputs(const vit__pass *p, vit__mat x,
                                             const vit_outputs *out, int image) {
    const vit_session *s = p->session;
    const vit_config *c = VIT__CONFIG(s->model);
    const size_t tokens = vit__tokens_floats(c), maps = vit__maps_floats(c);
    vit__tail_layers tail;
    int i;
    for (i = 0; !VIT__LOGITS_ONLY && i < out->num_blocks; i++) {
        const vit_block_output *o = &out->blocks[i];
        float *copy = o->attention ? o->attention + (size_t)image * maps : p->maps;
        if (vit__block_of(c, o) != p->block) continue;
        if (copy != p->maps) memcpy(copy, p->maps, (size_t)p->batch * maps * sizeof(float));
        if (!o->tokens) continue;
        vit__find_tail(s->model, &tail);
        vit__norm(p, o->norm ? &tail.norm : NULL, x, o->tokens + (size_t)image * tokens, NULL,
                  NULL);
    }
}

/* The number of blocks to run: all for the outputs of the head, otherwise those up to the last one
   that vit_outputs.blocks names. */
static int vit__needed_blocks(const vit_session *s, const vit_outputs *out) {
    const vit_config *c = VIT__CONFIG(s->model);
    int needed = 0, i;
    if (VIT__LOGITS_ONLY || out->logits || out->embedding || out->tokens || out->merged ||
        vit__is_traced(s))
        return c->depth;
    for (i = 0; i < out->num_blocks; i++) {
        const int block = vit__block_of(c, &out->blocks[i]);
        needed = block >= needed ? block + 1 : needed;
    }
    return needed;
}

/* The ids that stand in place of pixels, or NULL. */
VIT__INLINE const int *vit__ids_of(const vit_input *input) {
#if VIT__TEXT_ENCODER
    return input->ids;
#else
    (void)input;
    return NULL;
#endif
}

/* Runs at most params.batch images, from number `image` on. */
static void vit__forward_batch(const vit_session *s, const vit_input *input,
                               const vit_outputs *out, int image) {
    const vit_config *c = VIT__CONFIG(s->model);
    const int num_blocks = vit__needed_blocks(s, out);
    vit__pass p = vit__begin_pass(s, vit__known_batch(input->batch));
    vit__mat x;
    p.mask = VIT__LOGITS_ONLY ? NULL : input->mask;
    p.pixels = input->pixels;
    p.ids = vit__ids_of(input);
    x = vit__patch_embed(&p, p.pixels);
    for (p.block = 0; p.block < num_blocks; p.block++) {
        vit__block_layers w;
        vit__begin_block(s, p.block, &w);
        vit__begin_outputs(&p, out, image);
        if (c->attention == VIT_ATTENTION_SELF) x = vit__block_self(&p, &w, x);
        else if (vit__is_low(&s->params)) x = vit__block_low(&p, &w, x);
        else x = vit__block(&p, &w, x);
        vit__block_outputs(&p, x, out, image);
        p.maps = NULL;
    }
    p.block = -1;
    if (num_blocks == c->depth) vit__head(&p, x, out);
    vit__phase(s, VIT_PHASE_END);
}

/* 1 if the floats of `batch` images fit the address space; an image has at most 2^42. */
static int vit__is_addressable(uint64_t floats, int batch) {
    return floats <= (uint64_t)SIZE_MAX / sizeof(float) / (unsigned)batch;
}

/* Floats of one image in vit_outputs.merged; 0 without a merger. */
static size_t vit__merged_floats(const vit_config *c) {
    const int patches = vit__merged_patches(c);
    return patches ? (size_t)(c->num_patches / patches) * (size_t)c->merge_dim : 0;
}

/* 1 if the model has these outputs, and a batch of them fits the address space. */
static int vit__can_give(const vit_config *c, const vit_outputs *out, int batch) {
    const uint64_t tokens = (uint64_t)(unsigned)c->num_tokens, merged = vit__merged_floats(c);
    int i;
    if (VIT__LOGITS_ONLY) return !out->tokens && !out->num_blocks && !out->merged;
    if (out->merged && !(merged && vit__is_addressable(merged, batch))) return 0;
    if (out->num_blocks < 0 || (out->num_blocks && !out->blocks)) return 0;
    if (out->tokens && !vit__is_addressable(tokens * (unsigned)c->embed_dim, batch)) return 0;
    for (i = 0; i < out->num_blocks; i++) {
        const vit_block_output *o = &out->blocks[i];
        if (o->index < -c->depth || o->index >= c->depth) return 0;
        if (o->tokens && !vit__is_addressable(tokens * (unsigned)c->embed_dim, batch)) return 0;
        if (o->attention && !vit__is_addressable(tokens * tokens * (unsigned)c->num_heads, batch))
            return 0;
    }
    return 1;
}

/* Runs a batch, params.batch images at a time. */
VIT__INLINE void vit__forward_all(const vit_session *s, const vit_input *input, int batch,
                             const vit_outputs *outputs) {
#if VIT__EXECUTOR
    const vit_config *c = VIT__CONFIG(s->model);
    vit_outputs out = *outputs;
    vit_input in = *input;
    int image;
    for (image = 0; image < batch; image += in.batch) {
        size_t n;
        in.batch = vit__min(batch - image, vit__batch(s));
        n = (size_t)in.batch;
        vit__forward_batch(s, &in, &out, image);
        if (!VIT__LOGITS_ONLY && in.mask) in.mask += n * (size_t)c->num_tokens;
#if VIT__TEXT_ENCODER
        if (in.ids) in.ids += n * vit__input_size(c);
#endif
        if (in.pixels) in.pixels += n * vit__input_size(c);
        if (out.logits) out.logits += n * (size_t)c->num_classes;
        if (out.embedding) out.embedding += n * (size_t)vit__embedding_dim(c);
        if (out.tokens) out.tokens += n * vit__tokens_floats(c);
        if (out.merged) out.merged += n * vit__merged_floats(c);
    }
#else /* one image a call */
    (void)batch;
    vit__forward_batch(s, input, outputs, 0);
#endif
}

#if VIT__TEXT_ENCODER
/* 1 if the vocabulary has all ids. NaN is none of them. */
static int vit__are_ids(const vit_config *c, const vit_input *in, int batch) {
    const size_t n = (size_t)batch * vit__input_size(c);
    size_t i;
    for (i = 0; i < n; i++) {
        if (in->ids ? in->ids[i] < 0 || in->ids[i] >= c->vocab_size
                    : !(in->pixels[i] >= 0.0f && in->pixels[i] < (float)c->vocab_size))
            return 0;
    }
    return 1;
}

/* No token of a causal encoder depends on those after it. So embeddings and logits need only the
   tokens up to the one that is pooled: the texts run one by one, each as long as it is. */
static void vit__forward_texts(const vit_session *session, vit_input in, int batch,
                               vit_outputs out) {
    const vit_config *c = &session->model->config;
    const size_t width = (size_t)c->img_width;
    int i;
    for (i = 0; i < batch; i++) {
        vit_model model = *session->model;
        vit_session s = *session;
        vit__pass p = vit__begin_pass(session, 1);
        p.pixels = in.pixels;
        p.ids = in.ids;
        s.model = &model;
        s.img_width = model.file_width = model.config.img_width = model.config.grid_width =
            model.config.num_patches = vit__end_of_text(&p, 0) + 1;
        model.config.num_tokens = model.config.num_prefix_tokens + s.img_width;
        vit__forward_all(&s, &in, 1, &out);
        if (in.ids) in.ids += width;
        else in.pixels += width;
        if (out.logits) out.logits += c->num_classes;
        if (out.embedding) out.embedding += vit__embedding_dim(c);
    }
}
#endif

VIT_API vit_result vit_forward(vit_session *session, const vit_input *input,
                               const vit_outputs *outputs) {
    const vit_config *c;
    int batch;
    if (!session || !session->model || !input || !(input->pixels || vit__ids_of(input)) ||
        !outputs || (unsigned)input->batch > (unsigned)vit__known_batch(0x7fffffff))
        return VIT_ERROR_ARGUMENT;
    c = VIT__CONFIG(session->model);
    batch = vit__known_batch(vit__max(input->batch, 1));
#if VIT__TEXT_ENCODER
    if (vit__is_text(c) ? !vit__are_ids(c, input, batch) : input->ids != NULL)
        return VIT_ERROR_ARGUMENT;
#endif
    if (!vit__can_give(c, outputs, batch) || (outputs->logits && !c->num_classes) ||
        (VIT__LOGITS_ONLY && input->mask) || session->img_height != c->img_height ||
        session->img_width != c->img_width)
        return VIT_ERROR_ARGUMENT;
#if VIT__TEXT_ENCODER
    if (vit__is_text(c) && c->attention == VIT_ATTENTION_CAUSAL && c->pool == VIT_POOL_ARGMAX &&
        !input->mask && !outputs->tokens && !outputs->num_blocks && !vit__is_traced(session)) {
        vit__forward_texts(session, *input, batch, *outputs);
        return VIT_OK;
    }
#endif
    vit__forward_all(session, input, batch, outputs);
    return VIT_OK;
}

/* --- self-test ------------------------------------------------------------ */

/* Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014. */
VIT_API void vit_selftest_input(const vit_config *config, float *input) {
    const size_t n = vit__input_size(config);
    uint64_t state = (uint64_t)(unsigned)config->selftest_seed;
    size_t i;
    for (i = 0; i < n; i++) {
        uint64_t z = state += 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        z ^= z >> 31;
        input[i] = vit__is_text(config)
                       ? (float)((z >> 40) % (unsigned)config->vocab_size)
                       : (float)((int32_t)(z >> 40) - (1 << 23)) / 8388608.0f; /* exact */
    }
}

/* The largest difference from the stored output, divided by the largest number of that output. A
   function of its own, as the tail's layers would take stack during the forward pass. */
VIT__NOINLINE static float vit__selftest_error(const vit_model *m, const float *output) {
    int32_t worst = 0, largest = 0; /* as bits, of which NaN's are the largest */
    vit__tail_layers tail;
    float error;
    int i;
    vit__find_tail(m, &tail);
    for (i = 0; i < vit__output_dim(VIT__CONFIG(m)); i++) {
        const float want = vit__stored(tail.selftest + i);
        const int32_t size = vit__size_bits(output[i] - want), magnitude = vit__size_bits(want);
        if (size > worst) worst = size;
        if (magnitude > largest) largest = magnitude;
    }
    error = vit__float((uint32_t)worst);
    return largest ? error / vit__float((uint32_t)largest) : error;
}

VIT_API vit_result vit_selftest(vit_session *session, float *input, float *output, float *error) {
    const vit_config *c;
    vit_input in;
    vit_outputs outputs;
    vit_result result;
    float relative;
    if (!session || !session->model || !input || !output) return VIT_ERROR_ARGUMENT;
    c = VIT__CONFIG(session->model);
    if (!(c->selftest_tolerance > 0.0f)) return VIT_ERROR_UNSUPPORTED;
    if (!VIT__IS_FIXED && (c->img_height != session->model->file_height ||
                           c->img_width != session->model->file_width))
        return VIT_ERROR_UNSUPPORTED;
    vit_selftest_input(c, input);
    memset(&in, 0, sizeof in);
    in.pixels = input;
    memset(&outputs, 0, sizeof outputs);
    if (c->num_classes) outputs.logits = output;
    else outputs.embedding = output;
    result = vit_forward(session, &in, &outputs);
    if (result) return result;
    relative = vit__selftest_error(session->model, output);
    if (error) *error = relative;
    return relative <= c->selftest_tolerance ? VIT_OK : VIT_ERROR_SELFTEST;
}

/* --- photos in, answers out -------------------------------------------------- */

#if !defined(VIT_NO_MALLOC)

VIT_API void vit_session_close(vit_session *session) {
    if (!session) return;
    VIT_FREE(session->memory);
    VIT_FREE(session->room);
    memset(session, 0, sizeof *session);
}

#if !defined(VIT_NO_PREPROCESS)

typedef struct vit__photos {
    const vit_model *model;
    const vit_image *photos;
    float *pixels, *scratch; /* the photos of a group */
    size_t scratch_floats;
} vit__photos;

static void vit__photo_task(void *arg, int i) {
    const vit__photos *job = (const vit__photos *)arg;
    const size_t k = (size_t)i;
    vit_preprocess(job->model, &job->photos[i],
                   job->pixels + k * vit__input_size(VIT__CONFIG(job->model)),
                   job->scratch + k * job->scratch_floats, job->scratch_floats * sizeof(float));
}

/* vit_run's memory: at least this many floats, kept for the next call. */
static float *vit__session_room(vit_session *s, uint64_t floats) {
    const size_t bytes = vit__size(floats * sizeof(float));
    if (s->room && s->room_floats >= floats) return s->room;
    VIT_FREE(s->room);
    s->room = bytes ? (float *)VIT_MALLOC(bytes) : NULL;
    s->room_floats = bytes / sizeof(float);
    return s->room;
}

/* Photos that have their own input sizes, one after the other. */
static vit_result vit__run_fitted(vit_session *s, const vit_image *photos, int count,
                                  vit_answer *answer) {
    const size_t classes = (size_t)s->model->config.num_classes;
    const size_t dim = (size_t)vit__embedding_dim(&s->model->config), n = (size_t)count;
    vit_result result = VIT_OK;
    size_t i;
    if (!vit__session_room(s, (uint64_t)n * (classes + dim))) return VIT_ERROR_MEMORY;
    answer->scores = classes ? s->room : NULL;
    answer->embedding = s->room + n * classes;
    for (i = 0; i < n && !result; i++) {
        vit_model fitted;
        vit_session one;
        vit_answer its;
        memset(&one, 0, sizeof one);
        result = vit_model_fit(s->model, &photos[i], &fitted);
        if (!result) result = vit_session_init(&one, &fitted, &s->params, NULL, 0);
        if (!result) result = vit_run(&one, &photos[i], 1, &its);
        if (!result && classes)
            memcpy(s->room + i * classes, its.scores, classes * sizeof(float));
        if (!result)
            memcpy(s->room + n * classes + i * dim, its.embedding, dim * sizeof(float));
        vit_session_close(&one);
    }
    return result;
}

VIT_API vit_result vit_run(vit_session *session, const vit_image *photos, int count,
                           vit_answer *answer) {
    const vit_config *c;
    vit__photos job;
    vit_outputs out;
    vit_input in;
    size_t n, classes, dim, size, largest = 0;
    int first, group, i;
    if (!session || !session->model || !photos || count < 1 || !answer) return VIT_ERROR_ARGUMENT;
    c = VIT__CONFIG(session->model);
    if (c->crop_mode == VIT_CROP_ASPECT) return vit__run_fitted(session, photos, count, answer);
    for (i = 0; i < count; i++) {
        const vit_result result = vit__check_image(c, &photos[i]);
        if (result) return result;
        size = vit_preprocess_size(session->model, &photos[i]);
        if (!size) return VIT_ERROR_MEMORY;
        if (size > largest) largest = size;
    }
    n = (size_t)count;
    classes = (size_t)c->num_classes;
    dim = (size_t)vit__embedding_dim(c);
    group = vit__min(count, vit__max(vit__batch(session), vit__threads(&session->params)));
    size = vit__input_size(c);
    job.model = session->model;
    job.scratch_floats = largest / sizeof(float) + 1;
    if (!vit__session_room(session, (uint64_t)n * (classes + dim) +
                                        (uint64_t)(unsigned)group * (size + job.scratch_floats)))
        return VIT_ERROR_MEMORY;
    memset(&out, 0, sizeof out);
    memset(&in, 0, sizeof in);
    out.logits = classes ? session->room : NULL;
    out.embedding = session->room + n * classes;
    in.pixels = job.pixels = out.embedding + n * dim;
    job.scratch = job.pixels + (size_t)group * size;
    answer->scores = out.logits;
    answer->embedding = out.embedding;
    for (first = 0; first < count; first += in.batch) {
        vit_result result;
        in.batch = vit__min(group, count - first);
        job.photos = photos + first;
        vit__parallel_for(session, in.batch, vit__photo_task, &job);
        result = vit_forward(session, &in, &out);
        if (result) return result;
        if (out.logits) out.logits += (size_t)in.batch * classes;
        out.embedding += (size_t)in.batch * dim;
    }
    for (i = 0; i < count && classes; i++)
        vit_scores(session->model, session->room + (size_t)i * classes);
    return VIT_OK;
}

VIT_API vit_result vit_classify(const vit_model *model, const vit_image *image, int k,
                                vit_prediction *top) {
    vit_session session;
    vit_answer answer;
    vit_result result;
    int count = 0;
    if (!vit__is_open(model) || !top || k < 0 || VIT__CONFIG(model)->num_classes == 0)
        return VIT_ERROR_ARGUMENT;
    result = vit_session_init(&session, model, NULL, NULL, 0);
    if (!result) result = vit_run(&session, image, 1, &answer);
    if (!result) count = vit_top_k(answer.scores, VIT__CONFIG(model)->num_classes, k, top);
    for (; !result && count < k; count++) {
        top[count].index = -1;
        top[count].score = 0.0f;
    }
    vit_session_close(&session);
    return result;
}

VIT_API vit_result vit_embed(const vit_model *model, const vit_image *image, float *embedding) {
    vit_session session;
    vit_answer answer;
    vit_result result;
    if (!vit__is_open(model) || !embedding) return VIT_ERROR_ARGUMENT;
    result = vit_session_init(&session, model, NULL, NULL, 0);
    if (!result) result = vit_run(&session, image, 1, &answer);
    if (!result)
        memcpy(embedding, answer.embedding,
               (size_t)vit_embedding_dim(model) * sizeof *embedding);
    vit_session_close(&session);
    return result;
}
#endif
#endif

VIT__COLD_END

#if defined(VIT_TEXT_ENCODER)
VIT__COLD_BEGIN

/* ------------------------------------------------------------------------- */
/* >>text                                                                    */
/* ------------------------------------------------------------------------- */

/* From UTF-8 to ids: steps clean the text, added tokens are found as they stand, and the rest is
   split into words and these into pieces. The tokenizer's tables decide all of it; tools/text
   writes them.

   The header holds little-endian u32 at these offsets: 0 magic, 4 version, 8 bytes of the
   tokenizer, 12 algorithm, 16 split, 20 flags, 24 context, 28 num_ids, 32 begin, 36 end, 40 pad, 44
   id of unknown characters, 48 growth, 52 bytes of the longest piece, 56 lowest score (f32), 104
   score at the beginning of a text (f32). Growth is the most bytes, or code points, that any step
   makes of 16 bytes of text. The other u32 are offsets of tables; 0 stands for an empty table. A
   list is a count and that many u32. A table of strings has a count n, the size of its bytes, n + 1
   offsets of keys in these bytes, in the order of the keys, n + 1 values, and the bytes. A value is
   a number, or the offset of a replacement in the same bytes. */
enum {
    VIT__TEXT_MAGIC = 0x4b4f5456, /* VTOK */
    VIT__TEXT_VERSION = 1,
    VIT__TEXT_HEADER = 128,

    VIT__BPE_BYTES = 0, /* bytes are merged; the last one of a word has 0xff behind it */
    VIT__BPE_CHARS = 1, /* characters are merged */
    VIT__UNIGRAM = 2,   /* the best sum of the pieces' scores */

    VIT__SPLIT_NONE = 0,
    VIT__SPLIT_CLASSES = 1, /* runs of letters, single digits, runs of the rest; no space */
    VIT__SPLIT_SPACE = 2,   /* before each U+2581 */

    VIT__TEXT_FUSES = 1,  /* unknown characters in a row are one id */
    VIT__TEXT_DOUBLE = 2, /* best sums are not rounded to float */

    /* offsets in the header */
    VIT__AT_STEPS = 60,    /* list: kind | flags << 8, three offsets; between raw tokens */
    VIT__AT_PIECES = 64,   /* strings: the first merge, or a score */
    VIT__AT_IDS = 68,      /* list: of each piece */
    VIT__AT_MERGES = 72,   /* list: rank and bytes of the left half, 0 for any, in pairs */
    VIT__AT_BYTES = 76,    /* list: 256 ids for the bytes of unknown characters */
    VIT__AT_CLASSES = 80,  /* list: first code point of a range << 8, and its class */
    VIT__AT_WORDS = 84,    /* strings: words before all others; id, or none to look for pieces */
    VIT__AT_RAW = 88,      /* strings: tokens found before VIT__AT_STEPS run; id */
    VIT__AT_CLEANED = 92,  /* strings: tokens found in the cleaned text; id */
    VIT__AT_EXAMPLES = 96, /* list: a string's offset and size, count of ids, the ids */
    VIT__AT_FIRST = 100,   /* list: steps that run before raw tokens are found */

    /* kinds of steps */
    VIT__STEP_MAP = 1,      /* the longest key is replaced by its value */
    VIT__STEP_COLLAPSE = 2, /* runs of a class become a space */
    VIT__STEP_PREPEND = 3,  /* the first value, if there is text; flag 1: that lacks it */
    VIT__STEP_COMPOSE = 4,  /* decompositions, classes, compositions: NFC and its kin */
    VIT__STEP_SIGMA = 5,    /* a capital sigma at the end of a word */
    VIT__STEP_ENTITIES = 6, /* HTML's; flag 1: as ftfy does */

    VIT__LETTER = 1,
    VIT__NUMBER = 2,
    VIT__SPACE = 4,

    VIT__MAX_PIECE = 1024
};
#define VIT__NONE 0xffffffffu

typedef struct vit__list {
    const unsigned char *at;
    uint32_t count;
} vit__list;

typedef struct vit__strings {
    vit__list keys, values;
    const unsigned char *bytes;
    uint32_t count, size;
} vit__strings;

/* A text that grows up to its limit. Bytes that do not fit are dropped and set `full`. */
typedef struct vit__draft {
    unsigned char *at;
    size_t size, limit;
    int full;
} vit__draft;

/* One call of vit_tokenize. */
typedef struct vit__text_job {
    const vit_tokenizer *t;
    vit__strings pieces, words;
    vit__list ids, merges, bytes, classes;
    unsigned char *work; /* 18 * limit of a draft, aligned to 8 */
    int algorithm, flags, split;
    uint32_t unknown, longest;
    float lowest_score;
    int *out;
    size_t limit, count; /* of ids */
    int corrupt;
} vit__text_job;

static uint32_t vit__text_u32(const vit_tokenizer *t, int at) { return vit__u32(t->bytes + at); }

/* Returns false and an empty list unless the whole list lies within the tokenizer. */
static int vit__list_at(const vit_tokenizer *t, uint32_t offset, vit__list *list) {
    list->at = t->bytes;
    list->count = 0;
    if (!offset) return 1;
    if (offset > t->size - 4) return 0;
    list->at = t->bytes + offset + 4;
    list->count = vit__u32(list->at - 4);
    if (list->count <= (t->size - offset - 4) / 4) return 1;
    list->count = 0;
    return 0;
}

static uint32_t vit__item(const vit__list *list, size_t i) {
    return i < list->count ? vit__u32(list->at + 4 * i) : VIT__NONE;
}

static int vit__strings_at(const vit_tokenizer *t, uint32_t offset, vit__strings *s) {
    uint64_t lists;
    memset(s, 0, sizeof *s);
    s->bytes = s->keys.at = s->values.at = t->bytes;
    if (!offset) return 1;
    if (offset > t->size - 8) return 0;
    lists = ((uint64_t)vit__u32(t->bytes + offset) + 1) * 8 + 8;
    if (lists + vit__u32(t->bytes + offset + 4) > t->size - offset) return 0;
    s->count = vit__u32(t->bytes + offset);
    s->size = vit__u32(t->bytes + offset + 4);
    s->keys.at = t->bytes + offset + 8;
    s->keys.count = s->values.count = s->count + 1;
    s->values.at = s->keys.at + 4 * (size_t)s->keys.count;
    s->bytes = s->values.at + 4 * (size_t)s->keys.count;
    return 1;
}

/* The bytes from entry i of a list to the next entry; none if the entries are not in order. */
static size_t vit__bytes_of(const vit__strings *s, const vit__list *list, uint32_t i,
                          const unsigned char **at) {
    const uint32_t from = vit__item(list, i), to = vit__item(list, (size_t)i + 1);
    *at = s->bytes;
    if (from > to || to > s->size) return 0;
    *at += from;
    return to - from;
}

/* Keys [low, high) begin with the `depth` bytes that were searched so far. */
typedef struct vit__search {
    uint32_t low, high;
    size_t depth;
} vit__search;

/* Searches one more byte. Returns the key that ends with it, or VIT__NONE. */
static uint32_t vit__search_step(const vit__strings *s, vit__search *search, unsigned byte) {
    const unsigned char *key;
    unsigned k;
    for (k = 0; k < 2; k++) {
        uint32_t a = search->low, b = search->high;
        while (a < b) {
            const uint32_t middle = a + (b - a) / 2;
            const size_t n = vit__bytes_of(s, &s->keys, middle, &key);
            if (n <= search->depth || key[search->depth] < byte + k) a = middle + 1;
            else b = middle;
        }
        if (!k) search->low = a;
        else search->high = a;
    }
    search->depth++;
    if (search->low < search->high &&
        vit__bytes_of(s, &s->keys, search->low, &key) == search->depth)
        return search->low;
    return VIT__NONE;
}

/* The longest key that the text begins with, and its length, at least 1; or VIT__NONE. */
static uint32_t vit__longest_key(const vit__strings *s, const unsigned char *p, size_t n,
                                 size_t *length) {
    vit__search search = { 0, 0, 0 };
    uint32_t best = VIT__NONE, key;
    search.high = s->count;
    if (n > VIT__MAX_PIECE) n = VIT__MAX_PIECE;
    while (search.depth < n && search.low < search.high) {
        key = vit__search_step(s, &search, p[search.depth]);
        if (key != VIT__NONE) best = key, *length = search.depth;
    }
    return best;
}

/* The key that is these bytes, or VIT__NONE. */
static uint32_t vit__find_key(const vit__strings *s, const unsigned char *p, size_t n) {
    uint32_t a = 0, b = s->count;
    while (a < b) {
        const unsigned char *key;
        const uint32_t middle = a + (b - a) / 2;
        const size_t size = vit__bytes_of(s, &s->keys, middle, &key);
        const int order = size ? memcmp(key, p, size < n ? size : n) : -1;
        if (!order && size == n) return middle;
        if (order < 0 || (!order && size < n)) a = middle + 1;
        else b = middle;
    }
    return VIT__NONE;
}

/* The class of a code point: that of the last range that begins at or before it. */
static unsigned vit__class(const vit__list *list, uint32_t code) {
    uint32_t a = 0, b = list->count;
    while (a < b) {
        const uint32_t middle = a + (b - a) / 2;
        if (vit__item(list, middle) >> 8 <= code) a = middle + 1;
        else b = middle;
    }
    return a ? vit__item(list, a - 1) & 255u : 0;
}

/* --- UTF-8 ------------------------------------------------------------------ */

/* Bytes of the character at p, of n bytes; 0 if it is not UTF-8. */
static size_t vit__utf8(const unsigned char *p, size_t n, uint32_t *code) {
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    const size_t length = p[0] < 0x80 ? 1 : p[0] < 0xc0 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    size_t i;
    if (!length || length > n || p[0] > 0xf4) return 0;
    *code = length == 1 ? p[0] : p[0] & (0x7fu >> length);
    for (i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (p[i] & 0x3fu);
    }
    return *code < least[length] || *code > 0x10ffff || (*code >> 11) == 0x1b ? 0 : length;
}

/* The same for a text that a step wrote: a byte that is not UTF-8 counts as U+FFFD. */
static size_t vit__next_char(const unsigned char *p, size_t n, uint32_t *code) {
    const size_t length = vit__utf8(p, n, code);
    if (!length) *code = 0xfffd;
    return length ? length : 1;
}

static void vit__add_bytes(vit__draft *to, const unsigned char *p, size_t n) {
    if (n > to->limit - to->size) to->full = 1, n = 0;
    memmove(to->at + to->size, p, n);
    to->size += n;
}

static void vit__add_char(vit__draft *to, uint32_t code) {
    unsigned char p[4];
    const size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    size_t i;
    for (i = n - 1; i; i--, code >>= 6) p[i] = (unsigned char)(0x80 | (code & 0x3f));
    p[0] = (unsigned char)(n == 1 ? code : (0xf00u >> n & 0xf0u) | code);
    vit__add_bytes(to, p, n);
}

/* --- steps ------------------------------------------------------------------ */

static void vit__step_map(const vit__strings *map, const vit__draft *in, vit__draft *out) {
    size_t i, length;
    for (i = 0; i < in->size; i += length) {
        const unsigned char *value = in->at + i;
        uint32_t code;
        const uint32_t key = vit__longest_key(map, value, in->size - i, &length);
        size_t size;
        if (key != VIT__NONE) size = vit__bytes_of(map, &map->values, key, &value);
        else size = length = vit__next_char(value, in->size - i, &code);
        vit__add_bytes(out, value, size);
    }
}

/* Flag 1 drops a run at the beginning, 2 one at the end; 4 keeps other runs as they are. */
static void vit__step_collapse(const vit__list *spaces, unsigned flags, const vit__draft *in,
                               vit__draft *out) {
    size_t i, length = 0, run = 0;
    for (i = 0;; i += length) {
        uint32_t code;
        if (i < in->size) {
            length = vit__next_char(in->at + i, in->size - i, &code);
            if (vit__class(spaces, code)) {
                run += length;
                continue;
            }
        }
        if (run && (out->size || !(flags & 1)) && (i < in->size || !(flags & 2))) {
            if (flags & 4) vit__add_bytes(out, in->at + i - run, run);
            else vit__add_char(out, ' ');
        }
        if (i == in->size) return;
        run = 0;
        vit__add_bytes(out, in->at + i, length);
    }
}

/* As Python's lower(): a capital sigma is final if a cased letter (class 1) is before it and none
   is after it. Characters of class 2, which Unicode calls case-ignorable, are skipped. */
static void vit__step_sigma(const vit__list *classes, const vit__draft *in, vit__draft *out) {
    int after_cased = 0;
    size_t i, j, length, next;
    for (i = 0; i < in->size; i += length) {
        uint32_t code;
        unsigned kind;
        length = vit__next_char(in->at + i, in->size - i, &code);
        kind = vit__class(classes, code);
        if (code == 0x3a3 && after_cased) {
            unsigned ahead = 2;
            for (j = i + length; j < in->size && (ahead & 2); j += next) {
                next = vit__next_char(in->at + j, in->size - j, &code);
                ahead = vit__class(classes, code);
            }
            vit__add_char(out, (ahead & 3) == 1 ? 0x3c3 : 0x3c2);
        } else
            vit__add_bytes(out, in->at + i, length);
        if (!(kind & 2)) after_cased = (int)(kind & 1);
    }
}

/* The size of a reference such as "&#65;" or "&#x41", and the number in it; 0 if p has none. */
static size_t vit__reference(const unsigned char *p, size_t n, uint32_t *code) {
    const int hex = n > 2 && (p[2] | 32) == 'x';
    size_t i = 2 + (size_t)hex;
    const size_t start = i;
    for (*code = 0; i < n && *code < 0x1000000; i++) {
        const uint32_t digit = p[i] - 48u, letter = (p[i] | 32u) - 97;
        if (digit < 10) *code = *code * (hex ? 16 : 10) + digit;
        else if (hex && letter < 6) *code = *code * 16 + letter + 10;
        else break;
    }
    while (*code >= 0x1000000 && i < n && (p[i] - 48u < 10 || (hex && (p[i] | 32u) - 97 < 6))) i++;
    if (i == start) return 0;
    return i + (i < n && p[i] == ';');
}

/* Replaces HTML's character references as Python's html.unescape does. ftfy differs: references
   need the ';', those from the first line with a '<' on stay, a reference may make the '&' of
   another, and a terminal's colour escapes are dropped. The keys "&#" + byte have the replacements
   of numbers below 256 that stand for another character. */
static void vit__step_entities(const vit__strings *map, unsigned ftfy, vit__draft *in,
                               vit__draft *out) {
    unsigned char *p = in->at;
    size_t i, n, size = in->size; /* references must begin before it */
    for (i = 0; ftfy && i < size; i++)
        if (p[i] == '<') size = i;
    while (size < in->size && size && p[size - 1] != '\n') size--;
    for (i = 0; i < in->size; i += n) {
        const unsigned char *value = p + i;
        uint32_t code, key = VIT__NONE;
        size_t length = 1;
        n = 1;
        if (ftfy && p[i] == 27 && i + 2 < in->size && p[i + 1] == '[') {
            size_t end = i + 2;
            while (end + 1 < in->size && (p[end] - 48u < 10 || p[end] == ';')) end++;
            if ((p[end] | 32u) - 97 < 26) n = end + 1 - i, length = 0;
        } else if (p[i] == '&' && i < size && i + 1 < in->size && p[i + 1] == '#') {
            unsigned char bytes[8] = { '&', '#' };
            vit__draft made = { NULL, 2, sizeof bytes, 0 };
            made.at = bytes;
            n = vit__reference(value, in->size - i, &code);
            if (ftfy && (n > 27 || (n && (p[i + n - 1] != ';' || code == ';')))) n = 0;
            if (n) {
                const int surrogate = code >> 11 == 0x1b || code > 0x10ffff;
                if (surrogate) code = 0xfffd;
                vit__add_char(&made, code);
                if (code < 256) key = vit__find_key(map, bytes, made.size);
                if (key != VIT__NONE) length = vit__bytes_of(map, &map->values, key, &value);
                else if ((code & 0xfffe) == 0xfffe || code - 0xfdd0 < 32) length = 0;
                else {
                    vit__add_bytes(out, bytes + 2, made.size - 2);
                    length = 0;
                    if (ftfy && code == '&') out->size--, p[i + n - 1] = '&', n--;
                }
            } else
                n = 1;
        } else if (p[i] == '&' && i < size) {
            key = vit__longest_key(map, value, in->size - i, &n);
            if (key != VIT__NONE) length = vit__bytes_of(map, &map->values, key, &value);
            else n = 1;
            if (ftfy && key != VIT__NONE && length == 1 && *value == '&')
                length = 0, p[i + n - 1] = '&', n--;
        }
        vit__add_bytes(out, value, length);
    }
}

/* The canonical composition of two code points, or 0. */
static uint32_t vit__compose(const vit__strings *pairs, uint32_t a, uint32_t b) {
    unsigned char bytes[8];
    vit__draft key = { NULL, 0, sizeof bytes, 0 };
    const unsigned char *value;
    uint32_t code = 0, i;
    size_t n;
    if (b < 0x300) return 0;
    if (a - 0xac00 < 11172 && (a - 0xac00) % 28 == 0 && b - 0x11a8 < 27) return a + b - 0x11a7;
    if (a - 0x1100 < 19 && b - 0x1161 < 21) return 0xac00 + ((a - 0x1100) * 21 + b - 0x1161) * 28;
    key.at = bytes;
    vit__add_char(&key, a);
    vit__add_char(&key, b);
    i = vit__find_key(pairs, bytes, key.size);
    if (i == VIT__NONE) return 0;
    n = vit__bytes_of(pairs, &pairs->values, i, &value);
    return n && vit__utf8(value, n, &code) ? code : 0;
}

/* Code points of the text, decomposed, each with its combining class in the upper 8 bits. Returns
   their number; SIZE_MAX if there are more than in->limit. */
static size_t vit__decompose(const vit__strings *parts, const vit__list *classes,
                             const vit__draft *in, uint32_t *codes) {
    size_t n = 0, i, j, length;
    for (i = 0; i < in->size; i += length) {
        const unsigned char *value = in->at + i;
        uint32_t code, key;
        size_t size, step;
        length = size = vit__next_char(value, in->size - i, &code);
        if (code - 0xac00 < 11172) { /* Hangul */
            const uint32_t s = code - 0xac00;
            if (in->limit - n < 3) return SIZE_MAX;
            codes[n++] = 0x1100 + s / 588;
            codes[n++] = 0x1161 + s % 588 / 28;
            if (s % 28) codes[n++] = 0x11a7 + s % 28;
            continue;
        }
        key = code < 0x80 ? VIT__NONE : vit__find_key(parts, value, size);
        if (key != VIT__NONE) size = vit__bytes_of(parts, &parts->values, key, &value);
        for (j = 0; j < size; j += step) {
            step = vit__next_char(value + j, size - j, &code);
            if (n == in->limit) return SIZE_MAX;
            codes[n++] = code | (code < 0x300 ? 0 : (uint32_t)vit__class(classes, code) << 24);
        }
    }
    return n;
}

/* Sorts each run of combining marks by class; marks of equal class keep their order. */
static void vit__sort_marks(const uint32_t *codes, size_t n, uint32_t *sorted) {
    size_t i, j, k;
    for (i = 0; i < n; i = j) {
        uint32_t last = 0, next;
        for (j = i; j < n && codes[j] >> 24; j++) continue;
        if (j == i) {
            sorted[j] = codes[j];
            j++;
            continue;
        }
        for (k = i; k < j; last = next) {
            size_t m;
            next = 256;
            for (m = i; m < j; m++)
                if (codes[m] >> 24 > last && codes[m] >> 24 < next) next = codes[m] >> 24;
            for (m = i; m < j; m++)
                if (codes[m] >> 24 == next) sorted[k++] = codes[m];
        }
    }
}

/* Code points have their combining class in the upper 8 bits. They are decomposed, then sorted,
   then composed in place. Sorting takes one pass for each class of a run, at most 254. */
static void vit__step_compose(const vit__strings *parts, const vit__list *classes,
                              const vit__strings *pairs, const vit__draft *in, uint32_t *codes,
                              vit__draft *out) {
    const size_t n = vit__decompose(parts, classes, in, codes);
    uint32_t *sorted = codes + in->limit;
    size_t i, j, start = SIZE_MAX;
    if (n == SIZE_MAX) {
        out->full = 1;
        return;
    }
    vit__sort_marks(codes, n, sorted);
    for (i = j = 0; i < n; i++) {
        const uint32_t code = sorted[i] & 0xffffff, rank = sorted[i] >> 24;
        uint32_t pair = 0;
        if (pairs->count && start != SIZE_MAX && (j == start + 1 || codes[j - 1] >> 24 < rank))
            pair = vit__compose(pairs, codes[start], code);
        if (pair) codes[start] = pair;
        else {
            if (!rank) start = j;
            codes[j++] = sorted[i];
        }
    }
    for (i = 0; i < j; i++) vit__add_char(out, codes[i] & 0xffffff);
}

/* Runs the steps of the list at `at` on *in, which gets the result. *out is the other buffer. */
static vit_result vit__clean(const vit__text_job *job, int at, vit__draft *in, vit__draft *out) {
    const vit_tokenizer *t = job->t;
    vit__list steps, list, classes;
    vit__strings map, pairs;
    size_t i;
    vit__list_at(t, vit__text_u32(t, at), &steps);
    for (i = 0; i + 4 <= steps.count; i += 4) {
        const uint32_t kind = vit__item(&steps, i), a = vit__item(&steps, i + 1);
        const unsigned flags = kind >> 8;
        const unsigned char *value;
        vit__draft swap = *in;
        size_t n;
        vit__strings_at(t, a, &map);
        vit__list_at(t, a, &list);
        out->size = 0;
        switch (kind & 255) {
        case VIT__STEP_MAP: vit__step_map(&map, in, out); break;
        case VIT__STEP_COLLAPSE: vit__step_collapse(&list, flags, in, out); break;
        case VIT__STEP_SIGMA: vit__step_sigma(&list, in, out); break;
        case VIT__STEP_ENTITIES: vit__step_entities(&map, flags & 1, in, out); break;
        case VIT__STEP_COMPOSE:
            vit__list_at(t, vit__item(&steps, i + 2), &classes);
            vit__strings_at(t, vit__item(&steps, i + 3), &pairs);
            vit__step_compose(&map, &classes, &pairs, in, (uint32_t *)(void *)job->work, out);
            break;
        case VIT__STEP_PREPEND:
            n = vit__bytes_of(&map, &map.values, 0, &value);
            if (in->size && !(flags & 1 && in->size >= n && !memcmp(in->at, value, n)))
                vit__add_bytes(out, value, n);
            vit__add_bytes(out, in->at, in->size);
            break;
        default: return VIT_ERROR_CORRUPT;
        }
        if (out->full) return VIT_ERROR_CORRUPT;
        *in = *out;
        *out = swap;
    }
    return VIT_OK;
}

/* --- pieces ----------------------------------------------------------------- */

static void vit__put_id(vit__text_job *job, uint32_t id) {
    if (id == VIT__NONE) return;
    if (id >= (uint32_t)job->t->num_ids) job->corrupt = 1;
    if (job->count < job->limit) job->out[job->count] = (int)id;
    job->count++;
}

/* Adds the id of a piece; without a piece, of the unknown character at p. *fused is true if the
   character before it was unknown and shares its id. */
static void vit__put_piece(vit__text_job *job, uint32_t piece, const unsigned char *p, size_t n,
                           int *fused) {
    const int follows = *fused;
    *fused = 0;
    if (piece != VIT__NONE) vit__put_id(job, vit__item(&job->ids, piece));
    else if (job->bytes.count)
        for (; n; n--, p++) vit__put_id(job, vit__item(&job->bytes, *p));
    else {
        *fused = job->flags & VIT__TEXT_FUSES;
        if (!follows) vit__put_id(job, job->unknown);
    }
}

/* A tournament tree over the ranks of n positions: node 1 has the lowest rank, node i the lower one
   of nodes 2 i and 2 i + 1. The leaves are nodes n to 2 n - 1; position 0 is the first leaf of the
   deepest level, node `deep`. */
typedef struct vit__merging {
    const unsigned char *p;
    size_t n, deep;
    uint32_t *next, *before, *ranks;
} vit__merging;

static void vit__set_rank(vit__merging *m, size_t at, uint32_t rank) {
    size_t node = at + m->deep < 2 * m->n ? at + m->deep : at + m->deep - m->n;
    m->ranks[node] = rank;
    for (node /= 2; node; node /= 2) {
        const uint32_t a = m->ranks[2 * node], b = m->ranks[2 * node + 1];
        m->ranks[node] = a < b ? a : b;
    }
}

/* The rank of merging the symbol at a position with the next one, or VIT__NONE. */
static uint32_t vit__merge_rank(const vit__text_job *job, const vit__merging *m, size_t at) {
    const size_t right = m->next[at], size = right < m->n ? m->next[right] - at : 0;
    uint32_t piece, i, end;
    if (!size || size > job->longest) return VIT__NONE;
    piece = vit__find_key(&job->pieces, m->p + at, size);
    if (piece == VIT__NONE) return VIT__NONE;
    i = vit__item(&job->pieces.values, piece);
    end = vit__item(&job->pieces.values, (size_t)piece + 1);
    if (end > i && end - i > size) end = i + (uint32_t)size; /* one for each left half */
    for (; i < end; i++) {
        const uint32_t left = vit__item(&job->merges, 2 * (size_t)i + 1);
        if (!left || left == right - at) return vit__item(&job->merges, 2 * (size_t)i);
    }
    return VIT__NONE;
}

/* Merges the pair with the lowest rank, the first one of several, until no pair is a piece. */
static void vit__bpe(vit__text_job *job, const unsigned char *word, size_t n) {
    unsigned char *p = job->work;
    vit__merging m;
    size_t i, length;
    uint32_t code, previous = 0;
    int fused = 0;
    if (!n) return;
    memcpy(p, word, n);
    if (job->algorithm == VIT__BPE_BYTES) p[n++] = 0xff;
    m.p = p;
    m.n = n;
    m.next = (uint32_t *)(void *)(p + (n + 7) / 8 * 8);
    m.before = m.next + n;
    m.ranks = m.before + n;
    for (m.deep = 1; m.deep < n; m.deep *= 2) continue;
    memset(m.ranks, 255, 2 * n * sizeof *m.ranks);
    for (i = 0; i < n; i += length) {
        if (job->algorithm == VIT__BPE_BYTES) length = i + 2 == n ? 2 : 1;
        else length = vit__next_char(p + i, n - i, &code);
        m.before[i] = previous;
        previous = (uint32_t)i;
        m.next[i] = (uint32_t)(i + length);
    }
    for (i = 0; i < n; i = m.next[i]) vit__set_rank(&m, i, vit__merge_rank(job, &m, i));
    while (n > 1 && m.ranks[1] != VIT__NONE) {
        size_t node = 1, right;
        while (node < n) node = 2 * node + (m.ranks[2 * node] != m.ranks[1]);
        i = node >= m.deep ? node - m.deep : node - m.deep + n;
        right = m.next[i];
        m.next[i] = m.next[right];
        if (m.next[i] < n) m.before[m.next[i]] = (uint32_t)i;
        vit__set_rank(&m, right, VIT__NONE);
        vit__set_rank(&m, i, vit__merge_rank(job, &m, i));
        if (i) vit__set_rank(&m, m.before[i], vit__merge_rank(job, &m, m.before[i]));
    }
    for (i = 0; i < n; i = m.next[i])
        vit__put_piece(job, vit__find_key(&job->pieces, p + i, m.next[i] - i), p + i,
                       m.next[i] - i, &fused);
}

/* Viterbi's search: the best sum of scores up to each character, from left to right. Of equal sums,
   the first one found stays. */
static void vit__unigram(vit__text_job *job, const unsigned char *p, size_t n) {
    double *best = (double *)(void *)job->work;
    uint32_t *from = (uint32_t *)(void *)(best + n + 1), *piece = from + n + 1;
    size_t i, length, end;
    uint32_t code, back;
    const int doubles = job->flags & VIT__TEXT_DOUBLE;
    int fused = 0;
    memset(from, 255, (n + 1) * sizeof *from);
    best[0] = (double)vit__float(vit__text_u32(job->t, 104));
    for (i = 0; i < n; i += length) {
        vit__search search = { 0, 0, 0 };
        int single = 0;
        length = vit__next_char(p + i, n - i, &code);
        search.high = job->pieces.count;
        for (;;) {
            uint32_t key = VIT__NONE;
            float score = job->lowest_score - 10.0f; /* of an unknown character */
            double sum;
            end = i + length;
            if (search.low < search.high && i + search.depth < n && search.depth < job->longest) {
                key = vit__search_step(&job->pieces, &search, p[i + search.depth]);
                if (key == VIT__NONE) continue;
                score = vit__float(vit__item(&job->pieces.values, key));
                end = i + search.depth;
                if (search.depth == length) single = 1;
            } else if (single)
                break;
            /* SentencePiece compares sums in double with best ones that were rounded. */
            sum = best[i] + (double)score;
            if (key == VIT__NONE)
                sum = doubles ? best[i] + ((double)job->lowest_score - 10.0)
                              : (double)((float)best[i] + score);
            if (from[end] == VIT__NONE || sum > best[end]) {
                best[end] = doubles ? sum : (double)(float)sum;
                from[end] = (uint32_t)i;
                piece[end] = key;
            }
            if (key == VIT__NONE) break;
        }
    }
    for (i = n, back = (uint32_t)n; i; back = (uint32_t)i, i = length) { /* turns the path round */
        length = from[i];
        from[i] = back;
    }
    for (end = back; n; i = end, end = from[end]) {
        vit__put_piece(job, piece[end], p + i, end - i, &fused);
        if (end == n) break;
    }
}

static void vit__put_word(vit__text_job *job, const unsigned char *p, size_t n) {
    if (job->algorithm == VIT__UNIGRAM) vit__unigram(job, p, n);
    else vit__bpe(job, p, n);
}

static unsigned vit__class_at(const vit__text_job *job, const unsigned char *p, size_t n,
                              size_t *length) {
    uint32_t code;
    *length = vit__next_char(p, n, &code);
    return vit__class(&job->classes, code) & (VIT__LETTER | VIT__NUMBER | VIT__SPACE);
}

/* Splits cleaned text into words, and these into pieces. */
static void vit__put_words(vit__text_job *job, const unsigned char *p, size_t n) {
    size_t i, end, length;
    for (i = 0; i < n; i = end) {
        uint32_t code;
        end = n;
        if (job->split == VIT__SPLIT_CLASSES) {
            const uint32_t key = vit__longest_key(&job->words, p + i, n - i, &length);
            const uint32_t id = key == VIT__NONE ? key : vit__item(&job->words.values, key);
            const unsigned kind = vit__class_at(job, p + i, n - i, &end);
            if (key != VIT__NONE) end = length;
            end += i;
            if (id != VIT__NONE) vit__put_id(job, id);
            if (id != VIT__NONE || (key == VIT__NONE && kind == VIT__SPACE)) continue;
            while (key == VIT__NONE && kind != VIT__NUMBER && end < n &&
                   vit__class_at(job, p + end, n - end, &length) == kind)
                end += length;
        } else if (job->split == VIT__SPLIT_SPACE)
            for (end = i + vit__next_char(p + i, n - i, &code); end < n; end += length) {
                length = vit__next_char(p + end, n - end, &code);
                if (code == 0x2581) break;
            }
        vit__put_word(job, p + i, end - i);
    }
}

/* The bytes in front of the first of these tokens; n, and *key is VIT__NONE, if there is none. */
static size_t vit__until_token(const vit__strings *tokens, const unsigned char *p, size_t n,
                               uint32_t *key, size_t *length) {
    size_t i;
    *key = VIT__NONE;
    if (!tokens->count) return n;
    for (i = 0; i < n; i++) {
        *key = vit__longest_key(tokens, p + i, n - i, length);
        if (*key != VIT__NONE) break;
    }
    return i;
}

/* Adds the ids of a cleaned text, which lies between two raw tokens. */
static void vit__put_cleaned(vit__text_job *job, const vit__strings *tokens, const unsigned char *p,
                             size_t n) {
    size_t i, end, length = 0;
    uint32_t key;
    for (i = 0; i < n; i += end + length) {
        end = vit__until_token(tokens, p + i, n - i, &key, &length);
        vit__put_words(job, p + i, end);
        if (key != VIT__NONE) vit__put_id(job, vit__item(&tokens->values, key));
        else length = 0;
    }
}

/* --- the tokenizer ----------------------------------------------------------- */

/* True if all tables lie within the tokenizer, and vit__clean has every kind of step. */
static int vit__tables_good(const vit_tokenizer *t) {
    vit__list list, steps;
    vit__strings strings;
    size_t i;
    int at, good = 1;
    for (at = VIT__AT_STEPS; at <= VIT__AT_FIRST; at += 4)
        good &= at == VIT__AT_PIECES || (at >= VIT__AT_WORDS && at <= VIT__AT_CLEANED)
                    ? vit__strings_at(t, vit__text_u32(t, at), &strings)
                    : vit__list_at(t, vit__text_u32(t, at), &list);
    for (at = VIT__AT_STEPS; good && at <= VIT__AT_FIRST; at += VIT__AT_FIRST - VIT__AT_STEPS) {
        vit__list_at(t, vit__text_u32(t, at), &steps);
        good = steps.count <= 4 * 64;
        for (i = 0; good && i + 4 <= steps.count; i += 4) {
            const uint32_t kind = vit__item(&steps, i) & 255, a = vit__item(&steps, i + 1);
            good = kind >= VIT__STEP_MAP && kind <= VIT__STEP_ENTITIES &&
                   (kind == VIT__STEP_COLLAPSE || kind == VIT__STEP_SIGMA
                        ? vit__list_at(t, a, &list)
                        : vit__strings_at(t, a, &strings));
            if (good && kind == VIT__STEP_COMPOSE)
                good = vit__list_at(t, vit__item(&steps, i + 2), &list) &&
                       vit__strings_at(t, vit__item(&steps, i + 3), &strings);
        }
    }
    return good;
}

VIT_API vit_result vit_tokenizer_open(const void *data, size_t size, vit_tokenizer *t) {
    uint32_t context, num_ids;
    int at;
    if (!data || !t) return VIT_ERROR_ARGUMENT;
    memset(t, 0, sizeof *t);
    if (size < VIT__TEXT_HEADER) return VIT_ERROR_TRUNCATED;
    t->bytes = (const unsigned char *)data;
    t->size = size;
    if (vit__text_u32(t, 0) != VIT__TEXT_MAGIC) return VIT_ERROR_MAGIC;
    if (vit__text_u32(t, 4) != VIT__TEXT_VERSION) return VIT_ERROR_VERSION;
    if (vit__text_u32(t, 8) > size) return VIT_ERROR_TRUNCATED;
    t->size = vit__text_u32(t, 8);
    context = vit__text_u32(t, 24);
    num_ids = vit__text_u32(t, 28);
    if (t->size < VIT__TEXT_HEADER || vit__text_u32(t, 12) > VIT__UNIGRAM ||
        vit__text_u32(t, 16) > VIT__SPLIT_SPACE || context < 2 || context > 65536 || !num_ids ||
        num_ids > 0x1000000 || vit__text_u32(t, 48) < 16 || vit__text_u32(t, 48) > 16 * 64 ||
        !vit__text_u32(t, 52) || vit__text_u32(t, 52) > VIT__MAX_PIECE)
        return VIT_ERROR_CORRUPT;
    for (at = 32; at <= 44; at += 4) {
        const uint32_t id = vit__text_u32(t, at);
        if (id != VIT__NONE && id >= num_ids) return VIT_ERROR_CORRUPT;
    }
    if (!vit__tables_good(t)) return VIT_ERROR_CORRUPT;
    t->context = (int)context;
    t->num_ids = (int)num_ids;
    t->begin = (int)(int32_t)vit__text_u32(t, 32);
    t->end = (int)(int32_t)vit__text_u32(t, 36);
    t->pad = (int)(int32_t)vit__text_u32(t, 40);
    return VIT_OK;
}

/* The most bytes of a cleaned text, a multiple of 16. */
static uint64_t vit__draft_limit(const vit_tokenizer *t, size_t size) {
    return (uint64_t)size * vit__text_u32(t, 48) / 256 * 16 + 64;
}

VIT_API size_t vit_tokenize_size(const vit_tokenizer *t, size_t size) {
    if (!t || !t->bytes || size > (size_t)1 << 28) return 0;
    return vit__size(21 * vit__draft_limit(t, size) + 16);
}

/* Finds the tokenizer's tables, and starts the ids. */
static void vit__begin_text(vit__text_job *job, const vit_tokenizer *t, void *scratch, int *ids) {
    memset(job, 0, sizeof *job);
    job->t = t;
    job->work = (unsigned char *)scratch + (-(uintptr_t)scratch & 15);
    job->algorithm = (int)vit__text_u32(t, 12);
    job->split = (int)vit__text_u32(t, 16);
    job->flags = (int)vit__text_u32(t, 20);
    job->unknown = vit__text_u32(t, 44);
    job->longest = vit__text_u32(t, 52);
    job->lowest_score = vit__float(vit__text_u32(t, 56));
    job->out = ids;
    job->limit = (size_t)t->context - (t->end >= 0);
    vit__strings_at(t, vit__text_u32(t, VIT__AT_PIECES), &job->pieces);
    vit__strings_at(t, vit__text_u32(t, VIT__AT_WORDS), &job->words);
    vit__list_at(t, vit__text_u32(t, VIT__AT_IDS), &job->ids);
    vit__list_at(t, vit__text_u32(t, VIT__AT_MERGES), &job->merges);
    vit__list_at(t, vit__text_u32(t, VIT__AT_BYTES), &job->bytes);
    vit__list_at(t, vit__text_u32(t, VIT__AT_CLASSES), &job->classes);
    if (t->begin >= 0) vit__put_id(job, (uint32_t)t->begin);
}

/* Cuts the ids to the context, and adds the end and pad. */
static void vit__end_text(vit__text_job *job, vit_text_ids *text) {
    const vit_tokenizer *t = job->t;
    int i;
    if (job->count > job->limit) {
        text->num_cut = job->count - job->limit;
        job->count = job->limit;
    }
    if (t->end >= 0) text->ids[job->count++] = t->end;
    text->num_ids = (int)job->count;
    for (i = text->num_ids; i < t->context; i++) text->ids[i] = t->pad >= 0 ? t->pad : 0;
}

VIT_API vit_result vit_tokenize(const vit_tokenizer *t, const char *text, size_t size,
                                void *scratch, size_t scratch_size, vit_text_ids *text_ids) {
    const unsigned char *p = (const unsigned char *)text;
    vit__text_job job;
    vit__draft whole = { NULL, 0, 0, 0 }, in, out;
    vit__strings raw, cleaned;
    vit_result result;
    size_t i, n, end, length = 0;
    uint32_t key;
    if (!t || !t->bytes || (!text && size) || !text_ids || !text_ids->ids)
        return VIT_ERROR_ARGUMENT;
    text_ids->num_ids = 0;
    text_ids->num_cut = 0;
    for (i = 0; i < size && (n = vit__utf8(p + i, size - i, &key)) > 0;) i += n;
    text_ids->invalid_at = i;
    if (i < size) return VIT_ERROR_ARGUMENT;
    if (!scratch || !vit_tokenize_size(t, size) || scratch_size < vit_tokenize_size(t, size))
        return VIT_ERROR_MEMORY;
    vit__begin_text(&job, t, scratch, text_ids->ids);
    vit__strings_at(t, vit__text_u32(t, VIT__AT_RAW), &raw);
    vit__strings_at(t, vit__text_u32(t, VIT__AT_CLEANED), &cleaned);
    whole.limit = (size_t)vit__draft_limit(t, size);
    whole.at = job.work + 18 * whole.limit;
    in = out = whole;
    in.at += whole.limit;
    out.at += 2 * whole.limit;
    vit__add_bytes(&whole, p, size);
    result = vit__clean(&job, VIT__AT_FIRST, &whole, &in);
    for (i = 0; i < whole.size && !result;) {
        end = vit__until_token(&raw, whole.at + i, whole.size - i, &key, &length);
        in.size = 0;
        vit__add_bytes(&in, whole.at + i, end);
        i += end;
        result = vit__clean(&job, VIT__AT_STEPS, &in, &out);
        if (!result) vit__put_cleaned(&job, &cleaned, in.at, in.size);
        if (key != VIT__NONE) {
            vit__put_id(&job, vit__item(&raw.values, key));
            i += length;
        }
    }
    if (!result && job.corrupt) result = VIT_ERROR_CORRUPT;
    if (!result) vit__end_text(&job, text_ids);
    return result;
}

VIT_API const char *vit_tokenizer_example(const vit_tokenizer *t, int index, size_t *size,
                                          vit_text_ids *text) {
    vit__list list;
    size_t i, k;
    if (!t || !t->bytes || index < 0 || !size || !text || !text->ids) return NULL;
    vit__list_at(t, vit__text_u32(t, VIT__AT_EXAMPLES), &list);
    for (i = 0; i + 3 <= list.count; index--) {
        const uint32_t offset = vit__item(&list, i), count = vit__item(&list, i + 2);
        *size = vit__item(&list, i + 1);
        i += 3;
        if (offset > t->size || *size > t->size - offset || count > list.count - i ||
            count > (uint32_t)t->context)
            return NULL;
        if (!index) {
            for (k = 0; k < count; k++) text->ids[k] = (int)vit__item(&list, i + k);
            text->num_ids = (int)count;
            text->num_cut = 0;
            text->invalid_at = *size;
            return (const char *)t->bytes + offset;
        }
        i += count;
    }
    return NULL;
}

VIT_API vit_result vit_model_tokenizer(const vit_model *text, vit_tokenizer *tokenizer) {
    uint64_t offset, size;
    vit_result result;
    if (!vit__is_checked(text) || !tokenizer) return VIT_ERROR_ARGUMENT;
    memset(tokenizer, 0, sizeof *tokenizer);
    offset = vit__find_section(text, "tokenize", &size);
    if (!text->config.vocab_size || !size) return VIT_ERROR_UNSUPPORTED;
    result = vit_tokenizer_open(text->data + (size_t)offset, (size_t)size, tokenizer);
    if (!result && (tokenizer->context != text->config.img_width ||
                    tokenizer->num_ids > text->config.vocab_size))
        result = VIT_ERROR_CORRUPT;
    return result;
}

VIT_API void vit_text_scores(const vit_model *text, float *x, int n) {
    int i;
    if (!vit__is_checked(text) || !x) return;
    for (i = 0; i < n; i++) x[i] = text->config.logit_scale * x[i] + text->config.logit_bias;
    if (text->config.head_activation == VIT_HEAD_SIGMOID) vit_sigmoid(x, n);
    else vit_softmax(x, n);
}

#if !defined(VIT_NO_MALLOC)
VIT_API vit_result vit_text_embed(const vit_model *model, const char *text, float *embedding) {
    vit_model encoder;
    vit_tokenizer tokenizer;
    vit_session session;
    vit_input in;
    vit_outputs out;
    vit_text_ids text_ids;
    vit_result result;
    size_t length = 0, size, room;
    void *scratch = NULL;
    if (!text || !embedding) return VIT_ERROR_ARGUMENT;
    while (text[length]) length++;
    memset(&session, 0, sizeof session);
    memset(&in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    result = vit_model_text(model, 0, &encoder);
    if (result) return result;
    result = vit_model_tokenizer(&encoder, &tokenizer);
    if (result) return result;
    size = vit_tokenize_size(&tokenizer, length);
    room = (size_t)tokenizer.context * sizeof(int);
    if (size && size <= SIZE_MAX - room) scratch = VIT_MALLOC(room + size);
    if (!scratch) return VIT_ERROR_MEMORY;
    in.ids = text_ids.ids = (int *)scratch; /* the rest is scratch of vit_tokenize */
    out.embedding = embedding;
    result = vit_tokenize(&tokenizer, text, length, (char *)scratch + room, size, &text_ids);
    if (!result) result = vit_session_init(&session, &encoder, NULL, NULL, 0);
    if (!result) result = vit_forward(&session, &in, &out);
    vit_session_close(&session);
    VIT_FREE(scratch);
    return result;
}
#endif

VIT__COLD_END
#endif

#if defined(VIT__BUILTIN_COPIES)
#    undef memcpy
#    undef memset
#    undef memcmp
#endif

#endif
#endif /* VIT_IMPLEMENTATION */

/* LICENSE

   MIT License

   Copyright (c) 2026 the vit.h authors

   Permission is hereby granted, free of charge, to any person obtaining a copy
   of this software and associated documentation files (the "Software"), to deal
   in the Software without restriction, including without limitation the rights
   to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
   copies of the Software, and to permit persons to whom the Software is
   furnished to do so, subject to the following conditions:

   The above copyright notice and this permission notice shall be included in all
   copies or substantial portions of the Software.

   THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
   IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
   FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
   AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
   LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
   OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
   SOFTWARE.
*/
