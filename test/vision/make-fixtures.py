# Writes pictures.json and resized.json beside it: pictures in every format with the hash of Pillow's pixels, and hashes of pictures of odd
# sizes that Pillow resized.   python3 test/vision/make-fixtures.py   (needs Pillow)
import base64, hashlib, io, json, os, struct, zlib
from PIL import Image, ImageOps

here = os.path.dirname(__file__)

def noise(seed, count):
    out = bytearray()
    for _ in range(count):
        seed = (seed * 1664525 + 1013904223) % 2**32
        out.append(seed >> 24)
    return bytes(out)

def smooth(w, h, mode="RGB"):
    n = len(mode)
    return Image.frombytes(mode, (w, h), bytes((x * 11 + y * 7 * (c + 1) + c * 40) % 256 for y in range(h) for x in range(w) for c in range(n)))

def sha(image):
    return hashlib.sha256(image.tobytes()).hexdigest()

def on_white(image):
    rgba = image.convert("RGBA")
    base = Image.new("RGB", rgba.size, (255, 255, 255))
    base.paste(rgba.convert("RGB"), mask=rgba.getchannel("A"))
    return base

pictures = []
def add(name, data, expected):
    pictures.append({"name": name, "width": expected.width, "height": expected.height, "sha256": sha(expected), "base64": base64.b64encode(data).decode()})

def saved(image, fmt, **options):
    out = io.BytesIO()
    image.save(out, fmt, **options)
    return out.getvalue()

def reopened(data):
    return on_white(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))

rgb = smooth(13, 9)
for name, image in {
    "png rgb": rgb, "png grey": rgb.convert("L"), "png palette": rgb.quantize(17), "png 1 bit": rgb.convert("1"),
    "png rgba": smooth(13, 9, "RGBA"), "png grey alpha": smooth(13, 9, "RGBA").convert("LA"), "png 4 colours": rgb.quantize(4),
}.items():
    data = saved(image, "PNG")
    add(name, data, reopened(data))
data = saved(rgb.quantize(17), "PNG", transparency=3)
add("png palette, one colour transparent", data, reopened(data))

def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

def raw_png(w, h, depth, colour, interlace, rows):
    head = struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")

pixels = rgb.load()
wide = b"".join(b"\0" + b"".join(struct.pack(">HHH", *(v * 256 + 99 for v in pixels[x, y])) for x in range(13)) for y in range(9))
add("png 16 bit", raw_png(13, 9, 16, 2, 0, wide), rgb)
rows = b""
for left, top, sx, sy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
    for y in range(top, 9, sy):
        if left < 13:
            rows += b"\0" + b"".join(bytes(pixels[x, y]) for x in range(left, 13, sx))
add("png interlaced", raw_png(13, 9, 8, 2, 1, rows), rgb)

for name, options in {"jpeg": {}, "jpeg progressive": {"progressive": True}, "jpeg 4:4:4": {"subsampling": 0}}.items():
    data = saved(smooth(37, 25), "JPEG", quality=75, **options)
    add(name, data, reopened(data))
data = saved(rgb.convert("L"), "JPEG")
add("jpeg grey", data, reopened(data))
for orientation in range(2, 9):
    exif = Image.Exif()
    exif[0x112] = orientation
    data = saved(rgb, "JPEG", exif=exif)
    add(f"jpeg turned {orientation}", data, reopened(data))
for name, image, options in [("webp", smooth(37, 25), {}), ("webp lossless", rgb, {"lossless": True}), ("webp alpha", smooth(13, 9, "RGBA"), {"lossless": True, "exact": True})]:
    data = saved(image, "WEBP", **options)
    add(name, data, reopened(data))
for name, image, options in [("gif", rgb, {}), ("gif interlaced", smooth(40, 33), {"interlace": 1}), ("gif two frames", rgb, {"save_all": True, "append_images": [smooth(13, 9).rotate(180)]})]:
    data = saved(image.convert("P", palette=Image.ADAPTIVE), "GIF", **options)
    add(name, data, reopened(data))
json.dump(pictures, open(os.path.join(here, "pictures.json"), "w"), indent=1)

filters = {"lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
resized = []
state = 7
def pick(low, high):
    global state
    state = (state * 1664525 + 1013904223) % 2**32
    return low + (state >> 8) % (high - low + 1)
for i in range(200):
    w, h, to_w, to_h = pick(1, 90), pick(1, 90), pick(1, 120), pick(1, 120)
    name = list(filters)[i % 5]
    image = Image.frombytes("RGB", (w, h), noise(i, w * h * 3)).resize((to_w, to_h), filters[name])
    resized.append([w, h, to_w, to_h, name, sha(image)[:16]])
with open(os.path.join(here, "resized.json"), "w") as out:
    out.write("[\n" + ",\n".join(json.dumps(row) for row in resized) + "\n]\n")
