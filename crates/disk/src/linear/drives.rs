//! Linear profiles by name: four of the kernel, and 36 measured drives.

use super::LinearSpec;
use crate::presets::Preset;

const MB: u64 = 1_000_000;

// Capacities as drives of these names have them.
const GB_250: u64 = 250_059_350_016;
const GB_256: u64 = 256_060_514_304;
const GB_500: u64 = 500_107_862_016;
const GB_512: u64 = 512_110_190_592;
const GB_1000: u64 = 1_000_204_886_016;
const GB_1024: u64 = 1_024_209_543_168;
const GB_2000: u64 = 2_000_398_934_016;

/// A default profile of io.cost.
const fn kernel(
    name: &'static str,
    about: &'static str,
    size: u64,
    reads: [u64; 3],
    writes: [u64; 3],
) -> (Preset, LinearSpec) {
    let source = "io.cost, the profiles for devices that nobody has measured";
    (Preset { name, about, source }, spec(size, reads, writes))
}

/// A drive: name, model, number of reports, capacity (500 GB where the model does not say), and of reads and writes
/// MB/s and sequential and random IOPS of 4 KiB.
macro_rules! drive {
    ($name:literal, $model:literal, $reports:literal, $size:expr, $reads:expr, $writes:expr) => {
        (
            Preset {
                name: $name,
                about: concat!($model, ", linear model; reports it is the median of: ", $reports),
                source: "public submissions to iocost-benchmarks, Apache-2.0",
            },
            spec($size, in_bytes($reads), in_bytes($writes)),
        )
    };
}

const fn in_bytes([mb, seq_iops, rand_iops]: [u64; 3]) -> [u64; 3] {
    [mb * MB, seq_iops, rand_iops]
}

const fn spec(size: u64, reads: [u64; 3], writes: [u64; 3]) -> LinearSpec {
    LinearSpec {
        size,
        read_bps: reads[0],
        read_seq_iops: reads[1],
        read_rand_iops: reads[2],
        write_bps: writes[0],
        write_seq_iops: writes[1],
        write_rand_iops: writes[2],
        latency_ns: 0,
        streams: 1,
    }
}

#[rustfmt::skip]
pub(crate) const DRIVES: &[(Preset, LinearSpec)] = &[
    kernel("linear-hdd", "a disk with platters, linear model", GB_1000,
        [174_019_176, 41_708, 370], [178_075_866, 42_705, 378]),
    kernel("linear-ssd-qd1", "a flash disk without queueing, linear model", GB_500,
        [245_855_193, 61_575, 6946], [141_365_009, 33_716, 26_796]),
    kernel("linear-ssd-default", "a flash disk, linear model", GB_500,
        [488_636_629, 8932, 8518], [427_891_549, 28_755, 21_940]),
    kernel("linear-ssd-fast", "a fast flash disk, linear model", GB_1000,
        [3_102_524_156, 724_816, 778_122], [1_742_780_862, 425_702, 443_193]),
    drive!("ct1000p3pssd8", "CT1000P3PSSD8", 1, GB_1000, [4580, 391_807, 134_655], [2221, 128_640, 17_024]),
    drive!("fanxiang-s500pro-1tb", "Fanxiang S500Pro 1TB", 1, GB_1000, [3449, 410_455, 276_878], [2035, 254_124, 116_737]),
    drive!("hfs256gd9tng-62a0a", "HFS256GD9TNG-62A0A", 3, GB_256, [1061, 54_105, 63_053], [199, 12_308, 16_085]),
    drive!("hfs512gd9tng-62a0a", "HFS512GD9TNG-62A0A", 1, GB_512, [1301, 72_046, 116_693], [196, 12_944, 14_937]),
    drive!("hfs512gde9x083n", "HFS512GDE9X083N", 1, GB_512, [2343, 235_177, 179_295], [1118, 13_732, 37_518]),
    drive!("intel-ssdpekka256g7", "INTEL SSDPEKKA256G7", 3, GB_256, [1320, 69_820, 45_012], [120, 14_744, 17_634]),
    drive!("kingston-sa2000m8250g", "KINGSTON SA2000M8250G", 3, GB_250, [1142, 112_075, 112_003], [299, 77_975, 66_629]),
    drive!("kxg50znv256g-toshiba", "KXG50ZNV256G TOSHIBA", 2, GB_256, [1482, 107_567, 80_816], [521, 10_908, 19_790]),
    drive!("kxg6aznv512g-toshiba", "KXG6AZNV512G TOSHIBA", 2, GB_512, [2419, 256_089, 229_994], [834, 12_618, 22_672]),
    drive!("kxg6aznv512g-toshiba-sample", "KXG6AZNV512G TOSHIBA SAMPLE", 1, GB_512, [2405, 247_704, 222_650], [620, 12_148, 21_573]),
    drive!("lexar-ssd-nm790-2tb", "Lexar SSD NM790 2TB", 1, GB_2000, [7070, 725_474, 331_995], [5613, 107_404, 7694]),
    drive!("mtfdhba256tck-1as15abyy", "MTFDHBA256TCK-1AS15ABYY", 5, GB_256, [327, 85_056, 84_928], [537, 7477, 6499]),
    drive!("mtfdhba512tck", "MTFDHBA512TCK", 4, GB_512, [326, 87_572, 87_631], [587, 7809, 7002]),
    drive!("mtfdkba512tfh", "MTFDKBA512TFH", 3, GB_512, [2168, 243_828, 126_744], [2992, 118_080, 80_436]),
    drive!("mzul2256hchq-00afb", "MZUL2256HCHQ-00AFB", 3, GB_256, [1900, 81_210, 80_432], [414, 9825, 9678]),
    drive!("mzul2512hcjq-00afb", "MZUL2512HCJQ-00AFB", 3, GB_512, [2440, 157_904, 154_404], [820, 9806, 9686]),
    drive!("patriot-m2-p300-1024gb", "Patriot M.2 P300 1024GB", 1, GB_1024, [2335, 55_516, 151_996], [1608, 59_875, 5246]),
    drive!("samsung-mzvlw256hehp-00000", "SAMSUNG MZVLW256HEHP-00000", 3, GB_256, [1236, 130_658, 134_555], [345, 63_368, 23_437]),
    drive!("shgp31-1000gm-2", "SHGP31-1000GM-2", 3, GB_1000, [1625, 385_771, 387_016], [1493, 227_279, 229_634]),
    drive!("skhynix-phoenix", "SKhynix Phoenix", 4, GB_500, [1250, 80_797, 115_454], [114, 12_348, 15_064]),
    drive!("samsung-ssd-860", "Samsung SSD 860", 2, GB_500, [571, 94_411, 98_548], [379, 90_917, 89_636]),
    drive!("samsung-ssd-870", "Samsung SSD 870", 3, GB_500, [572, 98_145, 98_441], [540, 93_088, 92_973]),
    drive!("samsung-ssd-970-evo-500gb", "Samsung SSD 970 EVO 500GB", 3, GB_500, [1215, 124_555, 138_950], [758, 169_949, 40_472]),
    drive!("samsung-ssd-970-pro-512gb", "Samsung SSD 970 PRO 512GB", 3, GB_512, [3468, 343_800, 376_844], [2219, 239_923, 241_421]),
    drive!("samsung-ssd-980-pro-1tb", "Samsung SSD 980 PRO 1TB", 1, GB_1000, [2549, 364_653, 304_477], [2315, 66_718, 84_113]),
    drive!("samsung-ssd-990-evo-1tb", "Samsung SSD 990 EVO 1TB", 1, GB_1000, [3486, 534_594, 696_447], [759, 191_551, 505_898]),
    drive!("samsung-ssd-990-pro-2tb", "Samsung SSD 990 PRO 2TB", 1, GB_2000, [6444, 596_055, 781_780], [6596, 73_312, 73_748]),
    drive!("skhynix-pc711-nvme-512gb", "Skhynix PC711 NVMe 512GB", 2, GB_512, [2343, 220_857, 179_931], [1163, 13_869, 35_881]),
    drive!("wdc-cl-sn720-sdaqntw-256g-1020", "WDC CL SN720 SDAQNTW-256G-1020", 3, GB_256, [2320, 85_438, 91_580], [378, 18_821, 13_765]),
    drive!("wdc-cl-sn720-sdaqntw-512g-1020", "WDC CL SN720 SDAQNTW-512G-1020", 1, GB_512, [2261, 133_520, 172_299], [387, 20_688, 17_199]),
    drive!("wdc-cl-sn720-sdaqntw-512g-2000", "WDC CL SN720 SDAQNTW-512G-2000", 3, GB_512, [2282, 134_421, 174_939], [656, 22_175, 17_457]),
    drive!("wdc-cl-sn730-sdbqnty-256g-2020", "WDC CL SN730 SDBQNTY-256G-2020", 4, GB_256, [2319, 131_814, 124_464], [445, 20_139, 15_002]),
    drive!("wdc-cl-sn730-sdbqnty-512g-2020", "WDC CL SN730 SDBQNTY-512G-2020", 3, GB_512, [2268, 204_164, 235_901], [686, 23_378, 18_638]),
    drive!("wd-black-sn770-1tb", "WD BLACK SN770 1TB", 1, GB_1000, [5190, 334_463, 191_439], [4277, 26_868, 24_667]),
    drive!("wd-black-sn850x-1000gb", "WD BLACK SN850X 1000GB", 1, GB_1000, [6930, 378_339, 291_533], [3819, 23_719, 37_730]),
    drive!("wd-blue-sn580-1tb", "WD Blue SN580 1TB", 1, GB_1000, [4162, 333_128, 184_441], [3901, 27_165, 24_733]),
];
