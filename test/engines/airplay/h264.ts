/**
 * Colour bars in H.264 without an encoder: all pictures are IDR pictures, and all macroblocks are I_PCM, raw samples
 * (ITU-T H.264 §7.3.5). Constrained baseline profile.
 */
import { BitWriter } from './bits.ts'

export interface Size {
  /** In pixels, multiples of 16. */
  readonly width: number
  readonly height: number
}

const BLOCK = 16
const PROFILE = 66
/** constraint_set0_flag and constraint_set1_flag. */
const CONSTRAINTS = 0xc0
/** Level 4.0. */
const LEVEL = 40
/** nal_ref_idc 3, and nal_unit_type 7, 8 and 5. */
const NAL = { sps: 0x67, pps: 0x68, idr: 0x65 }
/** mb_type I_PCM in an I slice. */
const I_PCM = 25
/** slice_type: I, like all other slices of the picture. */
const ALL_I = 7

type Color = readonly [y: number, cb: number, cr: number]

/** White, yellow, cyan, green, magenta, red, blue, black, from left to right. ITU-R BT.601, limited range. */
export const BARS: readonly Color[] = [
  [235, 128, 128],
  [210, 16, 146],
  [170, 166, 16],
  [145, 54, 34],
  [106, 202, 222],
  [81, 90, 240],
  [41, 240, 110],
  [16, 128, 128],
]

export function sequenceParameters({ width, height }: Size): Buffer {
  const writer = new BitWriter().u(8, PROFILE).u(8, CONSTRAINTS).u(8, LEVEL)
  // seq_parameter_set_id; log2_max_frame_num_minus4; pic_order_cnt_type: output order is decoding order.
  writer.ue(0).ue(0).ue(2)
  // max_num_ref_frames; gaps_in_frame_num_value_allowed_flag.
  writer.ue(1).u(1, 0)
  writer.ue(width / BLOCK - 1).ue(height / BLOCK - 1)
  // frame_mbs_only_flag, direct_8x8_inference_flag; frame_cropping_flag, vui_parameters_present_flag.
  writer.u(2, 0b11).u(2, 0b00)
  return nalUnit(NAL.sps, writer.finish())
}

export function pictureParameters(): Buffer {
  // pic_parameter_set_id, seq_parameter_set_id; entropy_coding_mode_flag: CAVLC, bottom_field_pic_order…_flag.
  const writer = new BitWriter().ue(0).ue(0).u(2, 0b00)
  // num_slice_groups_minus1, num_ref_idx_l0_default_active_minus1, num_ref_idx_l1_default_active_minus1.
  writer.ue(0).ue(0).ue(0)
  // weighted_pred_flag, weighted_bipred_idc; pic_init_qp_minus26, pic_init_qs_minus26, chroma_qp_index_offset.
  writer.u(3, 0).ue(0).ue(0).ue(0)
  // deblocking_filter_control_present_flag; constrained_intra_pred_flag, redundant_pic_cnt_present_flag.
  writer.u(1, 1).u(2, 0b00)
  return nalUnit(NAL.pps, writer.finish())
}

/** Picture `number`: the bars, and a gray line across them that moves down with each picture. */
export function picture({ width, height }: Size, number: number): Buffer {
  const columns = width / BLOCK
  const rows = height / BLOCK
  // first_mb_in_slice, slice_type, pic_parameter_set_id, frame_num, idr_pic_id: differs from the previous picture's.
  const writer = new BitWriter()
    .ue(0)
    .ue(ALL_I)
    .ue(0)
    .u(4, 0)
    .ue(number & 1)
  // no_output_of_prior_pics_flag, long_term_reference_flag; slice_qp_delta; disable_deblocking_filter_idc.
  writer.u(2, 0b00).ue(0).ue(1)
  const gray: Color = [90 + (number % 100), 128, 128]
  for (let block = 0; block < columns * rows; block++) {
    const bar = BARS[Math.floor(((block % columns) * BARS.length) / columns)] ?? gray
    const [y, cb, cr] = Math.floor(block / columns) === number % rows ? gray : bar
    writer.ue(I_PCM).align().fill(256, y).fill(64, cb).fill(64, cr)
  }
  return nalUnit(NAL.idr, writer.finish())
}

/** AVCDecoderConfigurationRecord (ISO/IEC 14496-15 §5.3.3.1) with one SPS, one PPS and 4-byte NAL unit lengths. */
export function decoderConfiguration(size: Size): Buffer {
  const sps = sequenceParameters(size)
  const pps = pictureParameters()
  const head = Buffer.from([1, PROFILE, CONSTRAINTS, LEVEL, 0xff, 0xe1])
  return Buffer.concat([head, length16(sps), sps, Buffer.from([1]), length16(pps), pps])
}

/** Adds the header and emulation prevention bytes, so that no start code occurs inside (§7.4.1). */
function nalUnit(header: number, payload: readonly number[]): Buffer {
  const bytes = [header]
  let zeros = 0
  for (const byte of payload) {
    if (zeros >= 2 && byte <= 3) {
      bytes.push(3)
      zeros = 0
    }
    bytes.push(byte)
    zeros = byte === 0 ? zeros + 1 : 0
  }
  return Buffer.from(bytes)
}

function length16(part: Buffer): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16BE(part.length)
  return bytes
}
