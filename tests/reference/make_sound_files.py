"""tests/reference/make_sound_files.py: writes tests/reference/sound_files with libsndfile: half a second of sound in
several formats, and the samples that libsndfile reads from them: what tests/lua/data/sound_test.lua reads.
usage: python3 tests/reference/make_sound_files.py
"""
import os
import numpy as np
import soundfile

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sound_files")
t = np.arange(700) / 8000
sound = np.stack([0.6 * np.sin(2 * np.pi * 440 * t) + 0.2 * np.sin(2 * np.pi * 3000 * t * t), 0.9 * np.cos(900 * t)], 1)
values = {}

def save(name, channels, **how):
    path = os.path.join(FOLDER, name)
    soundfile.write(path, sound[:, :channels], 48000 if how["subtype"] == "OPUS" else 8000, **how)
    values[name], _ = soundfile.read(path, dtype="float32", always_2d=True)

os.makedirs(FOLDER, exist_ok=True)
for channels in (1, 2):
    for kind in ("ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM"):
        save(f"{kind.lower()}{channels}.wav", channels, format="WAV", subtype=kind)
save("ulaw2x.wav", 2, format="WAVEX", subtype="ULAW")
save("pcm.rf64", 2, format="RF64", subtype="PCM_16")
save("ima.w64", 2, format="W64", subtype="IMA_ADPCM")
save("pcm.w64", 1, format="W64", subtype="PCM_24")
save("pcm.flac", 2, format="FLAC", subtype="PCM_16")
save("vorbis.ogg", 1, format="OGG", subtype="VORBIS")
save("opus.ogg", 2, format="OGG", subtype="OPUS")
np.savez_compressed(os.path.join(FOLDER, "values.npz"), **{name: value.astype(np.float32) for name, value in values.items()})
