/** Numbers for the charts of the month page. */

import type { Category, Expense } from "./types";

const COLOURS: Record<Category, string> = {
  food: "#4c956c",
  rent: "#2c6e8f",
  travel: "#f2a65a",
  health: "#d1495b",
  other: "#8d99ae",
};

export interface Bar {
  label: string;
  value: number;
  colour: string;
}

export function totalAmount(expenses: Expense[]): number {
  return expenses.reduce((sum, expense) => sum + expense.amount, 0);
}

export function totalByCategory(expenses: Expense[]): Map<Category, number> {
  const totals = new Map<Category, number>();

}

export function bars(totals: Map<Category, number>): Bar[] {
  return [...totals.entries()]
    .sort(([, first], [, second]) => second - first)
    .map(([category, value]) => ({ label: category, value, colour: COLOURS[category] }));
}
