/** What the server sends. */

export type Category = "food" | "rent" | "travel" | "health" | "other";

export interface Expense {
  day: string;
  category: Category;
  amount: number;
  note: string;
  tags: string[];
}

export interface MonthReport {
  year: number;
  month: number;
  expenses: Expense[];
}
