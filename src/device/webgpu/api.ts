// The part of WebGPU that the device uses. A GPU object comes from Dawn in Node or from `navigator.gpu` in a browser; the types are declared
// here because Node's own library has none.

export interface GpuLimits {
  readonly maxBufferSize: number;
  readonly maxStorageBufferBindingSize: number;
  readonly maxStorageBuffersPerShaderStage: number;
  readonly maxComputeWorkgroupStorageSize: number;
  readonly maxComputeInvocationsPerWorkgroup: number;
  readonly maxComputeWorkgroupSizeX: number;
  readonly maxComputeWorkgroupsPerDimension: number;
  readonly minUniformBufferOffsetAlignment: number;
}

export interface GpuAdapterInfo {
  readonly vendor: string;
  readonly architecture: string;
  readonly device: string;
  readonly description: string;
  readonly isFallbackAdapter: boolean;
}

export interface Gpu {
  requestAdapter(options?: { powerPreference?: "high-performance" }): Promise<GpuAdapter | null>;
  readonly wgslLanguageFeatures: { has(name: string): boolean };
}

export interface GpuAdapter {
  readonly limits: GpuLimits;
  readonly features: { has(name: string): boolean };
  readonly info: GpuAdapterInfo;
  requestDevice(options: {
    requiredLimits: Readonly<Record<string, number>>;
    requiredFeatures: readonly string[];
  }): Promise<GpuHandle>;
}

/** A GPUDevice. */
export interface GpuHandle {
  readonly limits: GpuLimits;
  readonly features: { has(name: string): boolean };
  readonly queue: GpuSubmitQueue;
  readonly lost: Promise<{ readonly reason: string; readonly message: string }>;
  onuncapturederror: ((event: { readonly error: { readonly message: string } }) => void) | null;
  createBuffer(options: { size: number; usage: number; label?: string }): GpuMemory;
  createShaderModule(options: { code: string; label: string }): object;
  createBindGroupLayout(options: { entries: readonly object[] }): object;
  createPipelineLayout(options: { bindGroupLayouts: readonly object[] }): object;
  createBindGroup(options: { layout: object; entries: readonly object[] }): object;
  createComputePipeline(options: {
    label: string;
    layout: object;
    compute: { module: object; entryPoint: string };
  }): object;
  createCommandEncoder(): GpuEncoder;
  createQuerySet(options: { type: "timestamp"; count: number }): { destroy(): void };
  pushErrorScope(filter: "out-of-memory"): void;
  popErrorScope(): Promise<{ readonly message: string } | null>;
  destroy(): void;
}

/** A GPUBuffer. */
export interface GpuMemory {
  readonly mapState: "unmapped" | "pending" | "mapped";
  mapAsync(mode: number, offset?: number, size?: number): Promise<void>;
  getMappedRange(offset?: number, size?: number): ArrayBuffer;
  unmap(): void;
  destroy(): void;
}

export interface GpuSubmitQueue {
  writeBuffer(to: GpuMemory, offset: number, data: ArrayBufferLike, dataOffset: number, size: number): void;
  submit(commands: readonly object[]): void;
}

export interface GpuEncoder {
  beginComputePass(options?: object): GpuPass;
  copyBufferToBuffer(from: GpuMemory, fromOffset: number, to: GpuMemory, toOffset: number, size: number): void;
  clearBuffer(buffer: GpuMemory, offset?: number, size?: number): void;
  resolveQuerySet(set: object, first: number, count: number, to: GpuMemory, offset: number): void;
  finish(): object;
}

export interface GpuPass {
  setPipeline(pipeline: object): void;
  setBindGroup(index: number, group: object, offsets: readonly number[]): void;
  dispatchWorkgroups(x: number, y: number, z: number): void;
  end(): void;
}

/** GPUBufferUsage, GPUMapMode and GPUShaderStage: constants of the specification. */
export const USAGE = {
  mapRead: 0x0001,
  copySrc: 0x0004,
  copyDst: 0x0008,
  uniform: 0x0040,
  storage: 0x0080,
  queryResolve: 0x0200,
} as const;
export const MAP_READ = 1;
export const STAGE_COMPUTE = 4;
